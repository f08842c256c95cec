/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loader: the C interface in one program. Runs a pipeline and prints, for
 * each batch, what a training loop would be given.
 *
 *	cc loader.c -o loader $(pkg-config --cflags --libs millrace)
 *	./loader 'files photos | batch 64'
 *	./loader --epochs 2 --indices 'npy train.npy | batch 256'
 *
 * It needs the installed library and its one header, nothing else.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <millrace/millrace.h>

/* The sum of a tensor's elements: tensors are dense, so that one loop over
 * all of them does. 16-bit floats have no type in plain C and are left out. */
#define SUM(type)                       \
	for (int64_t i = 0; i < n; i++) \
	sum += (double)((const type *)t->data)[i]

static double tensor_sum(const struct mr_tensor *t)
{
	int64_t n = 1;
	double sum = 0;

	for (int d = 0; d < t->ndim; d++)
		n *= t->shape[d];
	switch (t->dtype) {
	case MR_U8:
		SUM(uint8_t);
		break;
	case MR_I16:
		SUM(int16_t);
		break;
	case MR_I32:
		SUM(int32_t);
		break;
	case MR_I64:
		SUM(int64_t);
		break;
	case MR_F32:
		SUM(float);
		break;
	case MR_F64:
		SUM(double);
		break;
	default:
		break;
	}
	return sum;
}

/* "data u8[64,32,32,3] sum 1.5e+06" */
static void print_field(const struct mr_field *f)
{
	const struct mr_tensor *t = &f->tensor;

	printf("  %s %s[", f->name, mr_dtype_name(t->dtype));
	for (int d = 0; d < t->ndim; d++)
		printf("%s%" PRId64, d ? "," : "", t->shape[d]);
	printf("] sum %.17g", tensor_sum(t));
	/* A field comes in one of three layouts; millrace.h draws them. */
	if (f->offsets)
		printf(" ragged");
	else if (f->shapes)
		printf(" padded");
	printf("\n");
}

static void print_batch(const struct mr_batch *b)
{
	printf("epoch %" PRIu64 " batch %" PRIu64 ": %" PRIu64 " samples\n",
	       mr_batch_epoch(b), mr_batch_number(b), mr_batch_count(b));
	for (size_t i = 0; i < mr_batch_fields(b); i++)
		print_field(mr_batch_field(b, i));
}

/* Which samples of the data set these are: "EPOCH BATCH: 17 4 23 ..." */
static void print_indices(const struct mr_batch *b)
{
	const uint64_t *index = mr_batch_indices(b);

	printf("%" PRIu64 " %" PRIu64 ":", mr_batch_epoch(b),
	       mr_batch_number(b));
	for (uint64_t i = 0; i < mr_batch_count(b); i++)
		printf(" %" PRIu64, index[i]);
	printf("\n");
}

static void print_stats(struct mr_loader *l)
{
	struct mr_stats st;

	/* A snapshot, which may also be taken in the middle of a run. */
	mr_loader_stats(l, &st);
	printf("%" PRIu64 " samples in %" PRIu64 " batches, %.0f samples/s on "
	       "%d threads; bottleneck: %s (%s)\n",
	       st.samples, st.batches, st.samples_per_s, st.threads,
	       st.verdict.bottleneck, st.verdict.evidence);
}

static int run(const char *pipeline, const struct mr_options *opt, bool indices)
{
	struct mr_err err;
	struct mr_loader *l;
	int e;

	/* Parses the text, indexes the data set, and makes the plan. All that
	 * can be wrong with a pipeline is told here, in err.text. */
	if (mr_loader_open_with(&l, pipeline, opt, &err)) {
		fprintf(stderr, "loader: %s\n", err.text);
		return 1;
	}
	for (uint64_t epoch = 0; epoch < opt->epochs; epoch++) {
		struct mr_batch *b;

		/* MR_OK: a batch. MR_END: the epoch is over, and the next
		 * call begins the next one. Negative: an error. */
		while ((e = mr_loader_next(l, &b, &err)) == MR_OK) {
			if (indices)
				print_indices(b);
			else
				print_batch(b);
			/* The memory goes back and is used again, so a loop
			 * that forgets this grows. */
			mr_batch_release(b);
		}
		if (e < 0) {
			fprintf(stderr, "loader: %s\n", err.text);
			mr_loader_close(l);
			return 1;
		}
	}
	if (!indices)
		print_stats(l);
	mr_loader_close(l);
	return 0;
}

/* ---- the command line ---- */

static int usage(void)
{
	fprintf(stderr,
		"usage: loader [--indices] [--epochs N] [--threads N] "
		"[--seed N]\n"
		"              [--order shuffle|sequential|block] [--block N]\n"
		"              [--rank R/N] [--plugin FILE] PIPELINE\n");
	return 2;
}

static bool set_order(struct mr_options *opt, const char *name)
{
	static const char *const names[] = {
		[MR_ORDER_SHUFFLE] = "shuffle",
		[MR_ORDER_SEQUENTIAL] = "sequential",
		[MR_ORDER_BLOCK] = "block",
	};

	for (int i = 0; i < 3; i++) {
		if (!strcmp(names[i], name)) {
			opt->order = i;
			return true;
		}
	}
	return false;
}

int main(int argc, char **argv)
{
	static const struct option longopts[] = {
		{ "indices", no_argument, NULL, 'i' },
		{ "epochs", required_argument, NULL, 'e' },
		{ "threads", required_argument, NULL, 't' },
		{ "seed", required_argument, NULL, 's' },
		{ "order", required_argument, NULL, 'o' },
		{ "block", required_argument, NULL, 'b' },
		{ "rank", required_argument, NULL, 'r' },
		{ "plugin", required_argument, NULL, 'p' },
		{ NULL, 0, NULL, 0 },
	};
	struct mr_options opt;
	bool indices = false, ok = true;
	int c;

	/* Always first: sets the defaults, and opt.size, by which the library
	 * knows which version of the struct this program was built with. */
	mr_options_init(&opt);
	opt.epochs = 1;
	while ((c = getopt_long(argc, argv, "", longopts, NULL)) != -1) {
		switch (c) {
		case 'i':
			indices = true;
			break;
		case 'e':
			opt.epochs = strtoull(optarg, NULL, 10);
			break;
		case 't':
			opt.threads = strtoll(optarg, NULL, 10);
			break;
		case 's':
			opt.seed = strtoull(optarg, NULL, 10);
			break;
		case 'o':
			ok = ok && set_order(&opt, optarg);
			break;
		case 'b':
			opt.block = strtoull(optarg, NULL, 10);
			break;
		case 'r': /* each process of a job takes its share */
			ok = ok && sscanf(optarg, "%" SCNd64 "/%" SCNd64,
					  &opt.rank, &opt.ranks) == 2;
			break;
		case 'p':
			opt.plugins = optarg;
			break;
		default:
			return usage();
		}
	}
	if (!ok || optind + 1 != argc)
		return usage();
	return run(argv[optind], &opt, indices);
}
