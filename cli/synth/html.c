/* SPDX-License-Identifier: Apache-2.0 */
/*
 * html: pages of news as they are on the web: an article of 3.3 KB in 43 KB
 * of navigation, teasers, scripts and readers' comments. In
 *
 *	DIR/pages/class-000/page-000000.html	the pages
 *	DIR/texts/class-000/page-000000.txt	what a reader takes for the text
 *	DIR/encoder.json, vocab.bpe, table.npy	see vocabulary.c
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "synth/prose.h"

enum { PAGE_BYTES = 42700 };

struct page {
	struct mr_str *html, *text;
	struct prose prose;
	struct synth_rng *rng;
	int style; /* which of the ways to build a page */
};

struct worker {
	struct mr_str html, text;
};

struct html {
	struct synth *s;
	struct worker *worker;
};

static int below(struct page *p, int n)
{
	return synth_below(p->rng, n);
}

static void out(struct page *p, const char *text)
{
	mr_str_add(p->html, text);
}

/* ---- what is around ---- */

static void link(struct page *p, const char *class, int words)
{
	mr_str_addf(p->html, "<a class=\"%s\" href=\"/%x/%llx.html?ref=%x\">",
		    class, (unsigned)below(p, 4096),
		    (unsigned long long)synth_u64(p->rng),
		    (unsigned)below(p, 65536));
	prose_title(&p->prose, words, NULL, p->html);
	out(p, "</a>");
}

/* Lines of code, until the page has so many bytes. */
static void script(struct page *p, size_t until)
{
	char a[PROSE_MAX], b[PROSE_MAX];

	out(p, "<script type=\"text/javascript\">\n");
	while (p->html->len < until && !p->html->failed) {
		prose_draw(&p->prose, a);
		prose_draw(&p->prose, b);
		mr_str_addf(p->html,
			    "if (window.%s && i < %d) { %s.push({\"%s\": "
			    "\"%llx\", \"html\": \"<p>%s<\\/p>\"}); }\n",
			    a, below(p, 100), b, a,
			    (unsigned long long)synth_u64(p->rng), b);
	}
	out(p, "</script>\n");
}

static void head(struct page *p)
{
	char a[PROSE_MAX];

	out(p, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n"
	       "<meta charset=\"utf-8\">\n<title>");
	prose_title(&p->prose, 7, NULL, p->html);
	out(p, " | The Daily Mill</title>\n<meta name=\"description\" "
	       "content=\"");
	prose_title(&p->prose, 20, NULL, p->html);
	out(p, "\">\n<style>\n");
	for (int i = 0; i < 30; i++) {
		prose_draw(&p->prose, a);
		mr_str_addf(p->html,
			    ".%s > .%s-%d { margin: %dpx; color: #%06x }\n", a,
			    a, below(p, 9), below(p, 40),
			    (unsigned)below(p, 1 << 24));
	}
	out(p, "</style>\n");
	script(p, p->html->len + 5000);
	out(p, "</head>\n");
}

static void navigation(struct page *p)
{
	static const char *const open[] = {
		"<header class=\"site-header\"><nav>",
		"<div id=\"masthead\"><div class=\"main-menu\">",
		"<div class=\"header\"><div class=\"nav-wrapper\">"
	};
	static const char *const close[] = { "</nav></header>\n",
					     "</div></div>\n",
					     "</div></div>\n" };

	out(p, "<!-- top -->\n");
	out(p, open[p->style]);
	for (int i = 0; i < 6; i++) {
		out(p, "<ul class=\"menu-list\">\n");
		for (int k = 3 + below(p, 6); k; k--) {
			out(p, "<li>");
			link(p, "menu-item", 1 + below(p, 3));
			out(p, k % 3 ? "</li>\n" : "\n");
		}
		out(p, "</ul>\n");
	}
	out(p, close[p->style]);
}

static void teasers(struct page *p, int n)
{
	static const char *const open[] = { "<aside>",
					    "<div class=\"sidebar\">",
					    "<div id=\"related-stories\">" };

	out(p, open[p->style]);
	out(p, "<h3>Most read</h3>\n");
	for (; n; n--) {
		out(p, "<div class=\"card\"><img src=\"/t.jpg\" alt=\"\">");
		link(p, "card-title", 5 + below(p, 5));
		out(p, "<p>");
		prose_sentences(&p->prose, 1, false, NULL, p->html);
		out(p, "</p></div>\n");
	}
	out(p, p->style ? "</div>\n" : "</aside>\n");
}

static void comments(struct page *p)
{
	static const char *const open[] = { "<section class=\"comments\">",
					    "<div id=\"comment-list\">",
					    "<ol class=\"commentlist\">" };
	static const char *const close[] = { "</section>\n", "</div>\n",
					     "</ol>\n" };

	out(p, open[p->style]);
	for (int i = 2 + below(p, 8); i; i--) {
		out(p, "<div class=\"comment-body\"><b>");
		prose_title(&p->prose, 2, NULL, p->html);
		out(p, "</b> wrote:<p>");
		prose_sentences(&p->prose, 1 + below(p, 3), true, NULL,
				p->html);
		out(p, "<p>");
		prose_sentences(&p->prose, 1, false, NULL, p->html);
		out(p, "</div>\n");
	}
	out(p, close[p->style]);
}

static void footer(struct page *p)
{
	out(p, p->style == 1 ? "<div class=\"footer\">" : "<footer>");
	for (int i = 0; i < 25; i++) {
		link(p, "footer-link", 1 + below(p, 2));
		out(p, " | ");
	}
	out(p, "<p>&copy; 2026 The Daily Mill. All rights reserved. Nothing on "
	       "this page may be reproduced, stored or ground to flour.</p>");
	out(p, p->style == 1 ? "</div>\n" : "</footer>\n");
}

/* ---- the article ---- */

static void line(struct page *p)
{
	if (p->text->len)
		mr_str_add(p->text, "\n");
}

static void paragraph(struct page *p)
{
	line(p);
	out(p, "<p>");
	prose_sentences(&p->prose, 3 + below(p, 3), true, p->text, p->html);
	out(p, below(p, 4) ? "</p>\n" : "\n");
}

static void subheading(struct page *p)
{
	line(p);
	out(p, "<h2>");
	prose_title(&p->prose, 3 + below(p, 3), p->text, p->html);
	out(p, "</h2>\n");
}

static void list(struct page *p)
{
	out(p, "<ul>\n");
	for (int i = 0; i < 3; i++) {
		line(p);
		out(p, "<li>");
		prose_sentences(&p->prose, 1, false, p->text, p->html);
		out(p, i ? "\n" : "</li>\n");
	}
	out(p, "</ul>\n");
}

/* What interrupts a text. */
static void interruption(struct page *p)
{
	switch (below(p, 4)) {
	case 0:
		out(p, "<figure><img src=\"/a.jpg\"><figcaption>");
		prose_sentences(&p->prose, 1, false, NULL, p->html);
		out(p, "</figcaption></figure>\n");
		break;
	case 1:
		out(p, "<div class=\"newsletter-signup\"><p>");
		prose_sentences(&p->prose, 1, false, NULL, p->html);
		out(p, "</p><form><input name=m><button>Sign up</button>"
		       "</form></div>\n");
		break;
	case 2:
		out(p, "<p>");
		link(p, "related-link", 9);
		out(p, "</p>\n");
		break;
	default:
		out(p, "<div class=\"ad\" id=\"ad-slot\"><script>show(\"<b>\");"
		       "</script></div>\n");
		break;
	}
}

static void article(struct page *p)
{
	static const char *const open[] = {
		"<main><article class=\"story\"><h1>",
		"<div id=\"content\"><div class=\"post\"><h1>",
		"<table width=\"100%\"><tr><td><div><h1>"
	};
	static const char *const close[] = {
		"</div></article></main>\n", "</div></div></div>\n",
		"</div></div></td></tr></table>\n"
	};

	out(p, open[p->style]);
	prose_title(&p->prose, 8, NULL, p->html);
	out(p, "</h1><div class=\"byline\">By <a href=\"/staff\">A. Miller</a>"
	       ", <time>12 March</time></div>\n");
	out(p, "<div class=\"share-tools\"><a href=\"#f\">Share</a> "
	       "<a href=\"#t\">Tweet</a></div>\n");
	out(p, p->style == 1 ? "<div class=\"entry-content\">\n" : "<div>\n");
	for (int i = 0; p->text->len < 2730 && !p->text->failed; i++) {
		paragraph(p);
		if (i % 3 == 2)
			interruption(p);
		if (i % 4 == 3)
			subheading(p);
		if (i == 5)
			list(p);
	}
	paragraph(p);
	out(p, close[p->style]);
}

static void make_page(struct page *p)
{
	double size = PAGE_BYTES * exp(0.15 * (double)synth_normal(p->rng));

	p->style = below(p, 3);
	head(p);
	out(p, "<body class=\"single page-template\">\n");
	navigation(p);
	article(p);
	comments(p);
	teasers(p, 10 + below(p, 10));
	footer(p);
	script(p, (size_t)size);
	out(p, "</body>\n</html>\n");
}

/* ---- the kind ---- */

static int put(struct synth *s, const char *kind, const char *end, uint64_t i,
	       const struct mr_str *text, struct mr_err *err)
{
	struct synth_file f = { .fd = -1 };
	int class = (int)(i % (uint64_t)s->opt->classes);
	int e = 0;

	if (text->failed)
		e = mr_err_set(err, MR_ENOMEM, "no memory for a page");
	if (!e)
		e = synth_file_open(&f, err, "%s/%s/class-%03d/page-%06llu.%s",
				    s->dir, kind, class, (unsigned long long)i,
				    end);
	if (!e)
		e = synth_file_write(&f, text->text, text->len, 0, err);
	if (!e)
		e = synth_file_done(s, &f, text->len, err);
	synth_file_drop(&f);
	return e;
}

static int make(void *data, int worker, uint64_t i, struct mr_err *err)
{
	struct html *t = data;
	struct worker *w = &t->worker[worker];
	uint64_t seed = (uint64_t)t->s->opt->seed;
	struct synth_rng rng = synth_rng_for(seed, i);
	struct page p = { .html = &w->html,
			  .text = &w->text,
			  .prose = { seed, &rng },
			  .rng = &rng };
	int e;

	w->html.len = w->text.len = 0;
	make_page(&p);
	e = put(t->s, "texts", "txt", i, p.text, err);
	return e ? e : put(t->s, "pages", "html", i, p.html, err);
}

static int make_dirs(struct synth *s, const char *kind, struct mr_err *err)
{
	const char *dir = s->dir;
	char path[PATH_MAX];
	int e;

	snprintf(path, sizeof(path), "%s/%s", dir, kind);
	e = synth_make_dirs(path, err);
	s->dir = path;
	if (!e)
		e = synth_class_dirs(s, err);
	s->dir = dir;
	return e;
}

static int check(const struct synth_options *opt, struct mr_err *err)
{
	(void)opt;
	(void)err;
	return 0;
}

static int run(struct synth *s, struct mr_err *err)
{
	uint64_t n = (uint64_t)s->opt->count;
	struct html t = { .s = s };
	int e;

	s->next = "files %s/pages | extract_text | batch 64";
	t.worker = mr_alloc((size_t)s->threads, sizeof(*t.worker), err);
	if (!t.worker)
		return MR_ENOMEM;
	e = make_dirs(s, "pages", err);
	if (!e)
		e = make_dirs(s, "texts", err);
	if (!e)
		e = prose_vocabulary(s, err);
	if (!e)
		e = synth_each(s, n, (double)n, make, &t, err);
	for (int i = 0; i < s->threads; i++) {
		mr_str_fini(&t.worker[i].html);
		mr_str_fini(&t.worker[i].text);
	}
	free(t.worker);
	return e;
}

const struct synth_kind synth_kind_html = {
	.name = "html",
	.help = "pages with articles, and a vocabulary for their words",
	.options = " ",
	.check = check,
	.run = run,
};
