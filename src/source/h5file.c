/* SPDX-License-Identifier: Apache-2.0 */
#include "source/h5file.h"

#include <pthread.h>
#include <stdio.h>

#include "source/h5index.h"

#define H5_USE_110_API 1
#include <hdf5.h>

/* Chunks whose places libhdf5 1.10 may be asked for, which takes the square
 * of their number: 0.4 s for these. */
enum { ASK_AT_MOST = 3000 };

/* ---- the library: one thread at a time, silently ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct quiet {
	H5E_auto2_t print;
	void *data;
};

/* A child that is forked while another thread is in the library is to find
 * the lock open, and the library in no thread's midst. */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void before_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&lock);
}

static void guard_forks(void)
{
	pthread_atfork(before_fork, after_fork, after_fork);
}

static struct quiet enter(void)
{
	struct quiet q = { NULL, NULL };

	pthread_once(&once, guard_forks);
	pthread_mutex_lock(&lock);
	H5Eget_auto2(H5E_DEFAULT, &q.print, &q.data);
	H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
	return q;
}

static void leave(struct quiet q)
{
	H5Eclear2(H5E_DEFAULT);
	H5Eset_auto2(H5E_DEFAULT, q.print, q.data);
	pthread_mutex_unlock(&lock);
}

static herr_t first_words(unsigned n, const H5E_error2_t *e, void *data)
{
	char *to = data;

	if (n == 0 && e->desc)
		snprintf(to, 256, "%s", e->desc);
	return 0;
}

/* The innermost of its messages, which knows most. */
static int library_error(const struct mr_h5_file *f, const char *dataset,
			 const char *what, struct mr_err *err)
{
	char words[256] = "no reason given";

	H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, first_words, words);
	return mr_err_set(err, MR_EDATA, "%s: %s%s%s%s: %s (libhdf5)", f->path,
			  dataset ? "dataset '" : "", dataset ? dataset : "",
			  dataset ? "': " : "", what, words);
}

/* ---- what there is ---- */

struct found {
	char text[400];
	size_t used;
	int n;
};

static herr_t note_dataset(hid_t top, const char *name, const H5O_info_t *info,
			   void *data)
{
	struct found *f = data;
	int k;

	(void)top;
	if (info->type != H5O_TYPE_DATASET)
		return 0;
	f->n++;
	k = snprintf(f->text + f->used, sizeof(f->text) - f->used, "%s%s",
		     f->used ? ", " : "", name);
	if (k > 0 && f->used + (size_t)k + 5 < sizeof(f->text)) {
		f->used += (size_t)k;
		return 0;
	}
	snprintf(f->text + f->used, sizeof(f->text) - f->used, ", ...");
	return 1; /* enough */
}

static int no_dataset(const struct mr_h5_file *f, hid_t file, const char *name,
		      struct mr_err *err)
{
	struct found found = { .n = 0 };

	H5Ovisit2(file, H5_INDEX_NAME, H5_ITER_INC, note_dataset, &found,
		  H5O_INFO_BASIC);
	if (!found.n)
		return mr_err_set(err, MR_EDATA, "%s: holds no dataset",
				  f->path);
	if (!*name)
		return mr_err_set(err, MR_EINVAL,
				  "%s: say dataset= with some of: %s", f->path,
				  found.text);
	return mr_err_set(err, MR_EINVAL,
			  "%s: no dataset '%s' in it; there are: %s", f->path,
			  name, found.text);
}

/* ---- types ---- */

static bool is_half(hid_t type)
{
	size_t sign, exp_at, exp_bits, at, bits;

	return H5Tget_size(type) == 2 && H5Tget_precision(type) == 16 &&
	       H5Tget_fields(type, &sign, &exp_at, &exp_bits, &at, &bits) >=
		       0 &&
	       sign == 15 && exp_at == 10 && exp_bits == 5 && at == 0 &&
	       bits == 10 && H5Tget_ebias(type) == 15;
}

static enum mr_dtype real_type(hid_t type, bool big)
{
	if (H5Tequal(type, big ? H5T_IEEE_F32BE : H5T_IEEE_F32LE) > 0)
		return MR_F32;
	if (H5Tequal(type, big ? H5T_IEEE_F64BE : H5T_IEEE_F64LE) > 0)
		return MR_F64;
	return is_half(type) ? MR_F16 : MR_NONE;
}

/* What holds all values; 8-byte numbers without a sign have nothing. */
static enum mr_dtype integer_type(size_t size, bool is_signed)
{
	switch (size) {
	case 1:
		return is_signed ? MR_I16 : MR_U8;
	case 2:
		return is_signed ? MR_I16 : MR_I32;
	case 4:
		return is_signed ? MR_I32 : MR_I64;
	case 8:
		return is_signed ? MR_I64 : MR_NONE;
	default:
		return MR_NONE;
	}
}

/* h5py's bool: an enumeration over one byte, 0 and 1. */
static bool is_bool(hid_t type)
{
	return H5Tget_class(type) == H5T_ENUM && H5Tget_size(type) == 1 &&
	       H5Tget_nmembers(type) == 2;
}

static const char *class_name(H5T_class_t class)
{
	switch (class) {
	case H5T_INTEGER:
		return "unsigned 64-bit numbers, or of odd width";
	case H5T_FLOAT:
		return "reals of a format other than f16, f32, f64";
	case H5T_STRING:
		return "texts";
	case H5T_COMPOUND:
		return "records";
	case H5T_VLEN:
		return "lists of different lengths";
	case H5T_ENUM:
		return "an enumeration";
	case H5T_ARRAY:
		return "arrays";
	default:
		return "no numbers";
	}
}

static int read_type(const struct mr_h5_file *f, struct mr_h5_set *s,
		     hid_t type, struct mr_err *err)
{
	H5T_class_t class = H5Tget_class(type);
	struct mr_h5_type *t = &s->type;

	t->dtype = MR_NONE;
	t->size = H5Tget_size(type);
	t->big = H5Tget_order(type) == H5T_ORDER_BE && t->size > 1;
	if (class == H5T_FLOAT) {
		t->dtype = real_type(type, t->big);
	} else if (class == H5T_INTEGER &&
		   H5Tget_precision(type) == 8 * t->size) {
		t->is_signed = H5Tget_sign(type) == H5T_SGN_2;
		t->dtype = integer_type(t->size, t->is_signed);
	} else if (is_bool(type)) {
		t->dtype = MR_U8;
	}
	if (t->dtype != MR_NONE)
		return 0;
	return mr_err_set(err, MR_ETYPE,
			  "%s: dataset '%s' holds %s, which are not taken; "
			  "convert it in Python: f['new'] = "
			  "f['%s'][...].astype('<f4')",
			  f->path, s->name, class_name(class), s->name);
}

/* ---- shape and storage ---- */

static int read_shape(const struct mr_h5_file *f, struct mr_h5_set *s,
		      hid_t space, struct mr_err *err)
{
	hsize_t dims[H5S_MAX_RANK];
	int64_t shape[MR_MAX_DIMS], elements;
	int n = H5Sget_simple_extent_dims(space, dims, NULL);

	if (n < 1 || n > MR_MAX_DIMS)
		return mr_err_set(err, MR_ETYPE,
				  "%s: dataset '%s' has %d dimensions; want 1 "
				  "to %d, of which the first counts rows",
				  f->path, s->name, n < 0 ? 0 : n, MR_MAX_DIMS);
	s->ndim = n;
	for (int i = 0; i < n; i++) {
		s->dims[i] = dims[i];
		shape[i] = dims[i] > INT64_MAX ? -1 : (int64_t)dims[i];
	}
	if (!mr_shape_elements(shape, n, s->type.dtype, &elements) ||
	    !mr_shape_elements(shape + 1, n - 1, s->type.dtype, &elements))
		return mr_err_set(err, MR_EDATA,
				  "%s: dataset '%s': its shape does not fit in "
				  "64 bits",
				  f->path, s->name);
	if (!elements)
		return mr_err_set(err, MR_EDATA,
				  "%s: dataset '%s' has rows without elements",
				  f->path, s->name);
	s->row_bytes = (size_t)elements * s->type.size;
	return 0;
}

/* Filters that we undo ourselves, each once at most. */
static bool read_filters(struct mr_h5_set *s, hid_t plist)
{
	int n = H5Pget_nfilters(plist);
	unsigned seen = 0;

	if (n < 0 || n > MR_H5_FILTERS)
		return false;
	for (int i = 0; i < n; i++) {
		unsigned flags, cd[8] = { 0 }, config;
		size_t cds = MR_COUNT(cd);
		H5Z_filter_t id = H5Pget_filter2(plist, (unsigned)i, &flags,
						 &cds, cd, 0, NULL, &config);

		if (id == H5Z_FILTER_DEFLATE)
			s->filter[i] = MR_H5_DEFLATE;
		else if (id == H5Z_FILTER_SHUFFLE && cd[0] == s->type.size)
			s->filter[i] = MR_H5_SHUFFLE;
		else if (id == H5Z_FILTER_FLETCHER32)
			s->filter[i] = MR_H5_FLETCHER;
		else
			return false;
		if (seen & 1u << s->filter[i])
			return false;
		seen |= 1u << s->filter[i];
	}
	s->filters = n;
	return true;
}

/* Before the first sample does: a filter that nobody here can undo. */
static int check_filters(const struct mr_h5_file *f, const struct mr_h5_set *s,
			 hid_t plist, struct mr_err *err)
{
	for (int i = 0; i < H5Pget_nfilters(plist); i++) {
		char name[64] = "";
		unsigned flags, config;
		size_t none = 0;
		H5Z_filter_t id =
			H5Pget_filter2(plist, (unsigned)i, &flags, &none, NULL,
				       sizeof(name), name, &config);

		if (H5Zfilter_avail(id) > 0)
			continue;
		return mr_err_set(err, MR_EUNSUPPORTED,
				  "%s: dataset '%s' is packed by filter %d "
				  "(%s), which libhdf5 lacks here; set "
				  "HDF5_PLUGIN_PATH to where it is, or pack "
				  "the file again: h5repack -f GZIP=4",
				  f->path, s->name, (int)id,
				  *name ? name : "of no name");
	}
	return 0;
}

static bool read_chunking(struct mr_h5_set *s, hid_t plist)
{
	hsize_t chunk[MR_MAX_DIMS];
	int64_t shape[MR_MAX_DIMS], elements;
	unsigned options = 0;
	uint64_t places = 1;

	if (H5Pget_chunk(plist, s->ndim, chunk) != s->ndim ||
	    H5Pget_chunk_opts(plist, &options) < 0 || options)
		return false;
	for (int i = 0; i < s->ndim; i++) {
		if (!chunk[i] || chunk[i] > UINT32_MAX)
			return false;
		s->chunk[i] = chunk[i];
		shape[i] = (int64_t)chunk[i];
		s->grid[i] = (s->dims[i] + chunk[i] - 1) / chunk[i];
		if (s->grid[i] && places > UINT64_MAX / s->grid[i])
			return false;
		places *= s->grid[i] ? s->grid[i] : 1;
	}
	if (!mr_shape_elements(shape, s->ndim, MR_F64, &elements))
		return false;
	s->chunk_bytes = (size_t)elements * s->type.size;
	return read_filters(s, plist);
}

static void read_fill(struct mr_h5_set *s, hid_t plist, hid_t type)
{
	H5D_fill_value_t state;

	if (H5Pfill_value_defined(plist, &state) >= 0 &&
	    state != H5D_FILL_VALUE_UNDEFINED &&
	    H5Pget_fill_value(plist, type, s->fill) < 0)
		memset(s->fill, 0, sizeof(s->fill));
}

/* For chunk indices of the newest format: the library tells where they are,
 * which is slow. */
static int ask_chunks(struct mr_h5_set *s, hid_t set, hid_t space,
		      struct mr_err *err)
{
	hsize_t n = 0;

	if (H5Dget_num_chunks(set, space, &n) < 0 || n > ASK_AT_MOST)
		return MR_EUNSUPPORTED;
	for (hsize_t i = 0; i < n; i++) {
		hsize_t offset[H5S_MAX_RANK] = { 0 }, size = 0;
		uint64_t at[MR_MAX_DIMS];
		unsigned mask = 0;
		haddr_t addr = HADDR_UNDEF;
		int e;

		if (H5Dget_chunk_info(set, space, i, offset, &mask, &addr,
				      &size) < 0)
			return MR_EUNSUPPORTED;
		if (addr == HADDR_UNDEF)
			continue;
		for (int d = 0; d < s->ndim; d++)
			at[d] = offset[d];
		e = mr_h5_index_add(s, at, addr, size, mask, err);
		if (e)
			return e;
	}
	mr_h5_index_sort(s);
	return 0;
}

struct where {
	hid_t file, set, space;
	uint64_t base;	  /* of addresses in the file */
	bool usual;	  /* addresses and lengths of 8 bytes */
	unsigned long no; /* the file's number in libhdf5 */
};

/* Where the bytes lie; MR_EUNSUPPORTED when only the library can know. */
static int find_bytes(struct mr_h5_file *f, struct mr_h5_set *s,
		      const struct where *w, struct mr_err *err)
{
	H5O_info_t info;
	int e = MR_EUNSUPPORTED;

	if (H5Oget_info2(w->set, &info, H5O_INFO_BASIC) < 0 ||
	    info.fileno != w->no) /* a link to another file */
		return MR_EUNSUPPORTED;
	if (w->usual)
		e = mr_h5_index(s, f->in, info.addr, w->base, err);
	if (e != MR_EUNSUPPORTED || w->base)
		return e;
	if (s->layout == MR_H5_CHUNKED)
		return ask_chunks(s, w->set, w->space, err);
	s->at = H5Dget_offset(w->set);
	if (s->at == HADDR_UNDEF)
		s->at = MR_H5_NOWHERE;
	return 0;
}

static int read_storage(struct mr_h5_file *f, struct mr_h5_set *s,
			const struct where *w, hid_t plist, struct mr_err *err)
{
	H5D_layout_t layout = H5Pget_layout(plist);
	int e = MR_EUNSUPPORTED;

	if (layout == H5D_CONTIGUOUS && H5Pget_external_count(plist) == 0) {
		s->layout = MR_H5_CONTIGUOUS;
		e = find_bytes(f, s, w, err);
	} else if (layout == H5D_CHUNKED && read_chunking(s, plist)) {
		s->layout = MR_H5_CHUNKED;
		e = find_bytes(f, s, w, err);
	}
	if (e == MR_EUNSUPPORTED) {
		mr_h5_set_fini(s);
		s->layout = MR_H5_LIBRARY;
		return check_filters(f, s, plist, err);
	}
	if (e)
		mr_err_prefix(err, "%s: dataset '%s': ", f->path, s->name);
	return e;
}

/* ---- a dataset ---- */

static int read_set(struct mr_h5_file *f, struct mr_h5_set *s, struct where *w,
		    struct mr_err *err)
{
	hid_t type = H5Dget_type(w->set);
	hid_t plist = H5Dget_create_plist(w->set);
	int e;

	w->space = H5Dget_space(w->set);
	if (type < 0 || plist < 0 || w->space < 0)
		e = library_error(f, s->name, "cannot read its description",
				  err);
	else
		e = read_type(f, s, type, err);
	if (!e)
		e = read_shape(f, s, w->space, err);
	if (!e) {
		read_fill(s, plist, type);
		e = read_storage(f, s, w, plist, err);
	}
	H5Sclose(w->space);
	H5Pclose(plist);
	H5Tclose(type);
	return e;
}

static int check_rows(struct mr_h5_file *f, const struct mr_h5_set *s,
		      struct mr_err *err)
{
	if (s == f->set)
		f->rows = s->dims[0];
	if (s->dims[0] == f->rows)
		return 0;
	return mr_err_set(err, MR_EDATA,
			  "%s: dataset '%s' has %llu rows, '%s' has %llu; all "
			  "of a file must have as many",
			  f->path, f->set[0].name, (unsigned long long)f->rows,
			  s->name, (unsigned long long)s->dims[0]);
}

/* Of the dataset, or else of the file. */
static int read_attribute(const struct mr_h5_file *f, hid_t file, hid_t set,
			  const char *dataset, const char *name, double *out,
			  struct mr_err *err)
{
	hid_t owner = H5Aexists(set, name) > 0 ? set : file;
	hid_t a = H5Aopen(owner, name, H5P_DEFAULT), space, type;
	bool good;

	if (a < 0)
		return mr_err_set(err, MR_EDATA,
				  "%s: neither dataset '%s' nor the file has "
				  "an attribute '%s'; add it (in Python: "
				  "f['%s'].attrs['%s'] = 1.0), or leave "
				  "attributes= out and give the number to the "
				  "step that needs it",
				  f->path, dataset, name, dataset, name);
	space = H5Aget_space(a);
	type = H5Aget_type(a);
	good = H5Sget_simple_extent_npoints(space) == 1 &&
	       (H5Tget_class(type) == H5T_INTEGER ||
		H5Tget_class(type) == H5T_FLOAT) &&
	       H5Aread(a, H5T_NATIVE_DOUBLE, out) >= 0;
	H5Tclose(type);
	H5Sclose(space);
	H5Aclose(a);
	return good ? 0 :
		      mr_err_set(err, MR_ETYPE,
				 "%s: dataset '%s': attribute '%s' is not a "
				 "single number",
				 f->path, dataset, name);
}

static int open_set(struct mr_h5_file *f, const struct mr_h5_want *want, int i,
		    struct where *w, struct mr_err *err)
{
	struct mr_h5_set *s = &f->set[i];
	int e;

	s->name = want->dataset[i];
	w->set = H5Dopen2(w->file, s->name, H5P_DEFAULT);
	if (w->set < 0)
		return no_dataset(f, w->file, s->name, err);
	e = read_set(f, s, w, err);
	if (!e)
		e = check_rows(f, s, err);
	for (int k = 0; !e && k < want->attributes; k++)
		e = read_attribute(
			f, w->file, w->set, s->name, want->attribute[k],
			&f->attribute[i * want->attributes + k], err);
	if (!e && s->layout == MR_H5_LIBRARY)
		s->handle = w->set;
	else
		H5Dclose(w->set);
	return e;
}

/* ---- a file ---- */

static hid_t open_file(const struct mr_h5_file *f, struct mr_err *err)
{
	hid_t plist = H5Pcreate(H5P_FILE_ACCESS), file;

	H5Pset_fclose_degree(plist, H5F_CLOSE_STRONG);
#if H5_VERSION_GE(1, 10, 7)
	/* Not on file systems, or in directories, that cannot. */
	H5Pset_file_locking(plist, 0, 1);
#endif
	file = H5Fopen(f->path, H5F_ACC_RDONLY, plist);
	if (file < 0) /* before the next call, which forgets why */
		library_error(f, NULL, "cannot open", err);
	H5Pclose(plist);
	return file;
}

static void find_base(struct where *w)
{
	hid_t plist = H5Fget_create_plist(w->file);
	hsize_t block = 0;
	size_t address = 0, length = 0;
	H5O_info_t info = { 0 };

	H5Pget_userblock(plist, &block);
	H5Pget_sizes(plist, &address, &length);
	H5Pclose(plist);
	H5Oget_info2(w->file, &info, H5O_INFO_BASIC);
	w->no = info.fileno;
	w->base = block;
	w->usual = address == 8 && length == 8;
}

static int open_sets(struct mr_h5_file *f, const struct mr_h5_want *want,
		     struct mr_err *err)
{
	struct where w = { .file = open_file(f, err) };
	bool library = false;
	int e = 0;

	if (w.file < 0)
		return MR_EDATA;
	find_base(&w);
	for (int i = 0; !e && i < want->datasets; i++) {
		e = open_set(f, want, i, &w, err);
		library = library || f->set[i].layout == MR_H5_LIBRARY;
		f->sets = i + 1;
	}
	if (library)
		f->handle = w.file;
	else
		H5Fclose(w.file);
	return e;
}

int mr_h5_open(struct mr_h5_file *f, const struct mr_h5_want *want,
	       struct mr_err *err)
{
	struct quiet q;
	int e;

	f->handle = -1;
	if (mr_input_is_url(f->path))
		return mr_err_set(err, MR_EUNSUPPORTED,
				  "%s: HDF5 files must be local; copy it",
				  f->path);
	e = mr_input_open(&f->in, f->path, err);
	if (e)
		return e;
	f->set = mr_alloc((size_t)want->datasets, sizeof(*f->set), err);
	f->attribute =
		mr_alloc((size_t)want->datasets * (size_t)want->attributes,
			 sizeof(*f->attribute), err);
	if (!f->set || !f->attribute)
		return MR_ENOMEM;
	q = enter();
	e = open_sets(f, want, err);
	leave(q);
	return e;
}

void mr_h5_close(struct mr_h5_file *f)
{
	for (int i = 0; i < f->sets; i++)
		mr_h5_set_fini(&f->set[i]);
	if (f->handle >= 0) {
		struct quiet q = enter();

		H5Fclose(f->handle); /* and the datasets in it */
		leave(q);
	}
	f->handle = -1;
	mr_input_close(f->in);
	free(f->set);
	free(f->attribute);
	f->in = NULL;
	f->set = NULL;
	f->attribute = NULL;
	f->sets = 0;
}

/* ---- reading by the library ---- */

static hid_t memory_type(enum mr_dtype dtype)
{
	switch (dtype) {
	case MR_U8:
		return H5T_NATIVE_UINT8;
	case MR_I16:
		return H5T_NATIVE_INT16;
	case MR_I32:
		return H5T_NATIVE_INT32;
	case MR_I64:
		return H5T_NATIVE_INT64;
	case MR_F32:
		return H5T_NATIVE_FLOAT;
	case MR_F64:
		return H5T_NATIVE_DOUBLE;
	default:
		return -1;
	}
}

/* Halves and bools: as they are stored, with the low byte first. */
static hid_t own_type(const struct mr_h5_set *s)
{
	hid_t stored = H5Dget_type(s->handle);
	hid_t type = H5Tcopy(stored); /* the dataset's own cannot be changed */

	if (s->type.dtype == MR_F16)
		H5Tset_order(type, H5T_ORDER_LE);
	H5Tclose(stored);
	return type;
}

int mr_h5_library_read(const struct mr_h5_file *f, const struct mr_h5_set *s,
		       uint64_t first, uint64_t n, void *to, struct mr_err *err)
{
	hsize_t from[MR_MAX_DIMS] = { 0 }, count[MR_MAX_DIMS];
	struct quiet q = enter();
	hid_t space = H5Dget_space(s->handle), memory, own = -1, type;
	int e = 0;

	for (int i = 0; i < s->ndim; i++)
		count[i] = s->dims[i];
	from[0] = first;
	count[0] = n;
	memory = H5Screate_simple(s->ndim, count, NULL);
	type = memory_type(s->type.dtype);
	if (type < 0 || s->type.dtype == MR_U8)
		type = own = own_type(s);
	if (H5Sselect_hyperslab(space, H5S_SELECT_SET, from, NULL, count,
				NULL) < 0 ||
	    H5Dread(s->handle, type, memory, space, H5P_DEFAULT, to) < 0)
		e = library_error(f, s->name, "cannot read", err);
	if (own >= 0)
		H5Tclose(own);
	H5Sclose(memory);
	H5Sclose(space);
	leave(q);
	return e;
}
