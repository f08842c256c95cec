/* SPDX-License-Identifier: Apache-2.0 */
/* libhwloc is loaded when it is needed: its start would be paid for by each
 * command, and only one asks it. */
#include <dlfcn.h>
#include <hwloc.h>
#include <stdio.h>
#include <string.h>

#include "probe/topology.h"

/* clang-format off */
#define FUNCTIONS(f) \
	f(topology_init) f(topology_load) f(topology_destroy) \
	f(get_type_depth) f(get_nbobjs_by_depth) f(get_obj_by_depth) \
	f(bitmap_weight)
/* clang-format on */

struct hwloc {
#define MEMBER(name) __typeof__(&(hwloc_##name)) name;
	FUNCTIONS(MEMBER)
#undef MEMBER
	hwloc_topology_t topology;
};

static bool find(void *lib, const char *name, void *to)
{
	void *at = dlsym(lib, name);

	memcpy(to, &at, sizeof(at));
	return at;
}

static bool find_all(void *lib, struct hwloc *h)
{
	bool ok = true;

#define FIND(name) ok = ok && find(lib, "hwloc_" #name, &h->name);
	FUNCTIONS(FIND)
#undef FIND
	return ok;
}

/* Objects of a type; 0 when there are none, or on several levels. */
static int count(const struct hwloc *h, hwloc_obj_type_t type)
{
	int depth = h->get_type_depth(h->topology, type);

	return depth == HWLOC_TYPE_DEPTH_UNKNOWN ||
			       depth == HWLOC_TYPE_DEPTH_MULTIPLE ?
		       0 :
		       (int)h->get_nbobjs_by_depth(h->topology, depth);
}

static hwloc_obj_t first(const struct hwloc *h, hwloc_obj_type_t type, int i)
{
	return h->get_obj_by_depth(
		h->topology, h->get_type_depth(h->topology, type), (unsigned)i);
}

static void read_nodes(const struct hwloc *h, struct mr_topology *t)
{
	t->nodes = count(h, HWLOC_OBJ_NUMANODE);
	for (int i = 0; i < t->nodes && i < MR_NODES; i++) {
		hwloc_obj_t o = first(h, HWLOC_OBJ_NUMANODE, i);

		if (!o)
			continue;
		t->node[i].number = (int)o->os_index;
		t->node[i].threads = h->bitmap_weight(o->cpuset);
		t->node[i].memory = o->attr->numanode.local_memory;
	}
}

static void read_caches(const struct hwloc *h, struct mr_topology *t)
{
	static const hwloc_obj_type_t level[MR_CACHES] = {
		HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE,
		HWLOC_OBJ_L4CACHE, HWLOC_OBJ_L5CACHE
	};

	for (int i = 0; i < MR_CACHES; i++) {
		int n = count(h, level[i]);
		hwloc_obj_t o = n ? first(h, level[i], 0) : NULL;

		if (!o)
			continue;
		t->cache[t->caches].level = i + 1;
		t->cache[t->caches].count = n;
		t->cache[t->caches++].bytes = o->attr->cache.size;
	}
}

static void read_all(const struct hwloc *h, struct mr_topology *t)
{
	t->sockets = count(h, HWLOC_OBJ_PACKAGE);
	t->cores = count(h, HWLOC_OBJ_CORE);
	t->threads = count(h, HWLOC_OBJ_PU);
	read_nodes(h, t);
	read_caches(h, t);
}

void mr_topology_hwloc(struct mr_topology *t)
{
	void *lib = dlopen("libhwloc.so.15", RTLD_NOW | RTLD_LOCAL);
	struct hwloc h = { 0 };

	if (!lib || !find_all(lib, &h)) {
		snprintf(t->reason, sizeof(t->reason),
			 "cannot load libhwloc: %s",
			 lib ? "a function is missing" : dlerror());
	} else if (h.topology_init(&h.topology)) {
		snprintf(t->reason, sizeof(t->reason), "hwloc does not start");
	} else {
		if (h.topology_load(h.topology))
			snprintf(t->reason, sizeof(t->reason),
				 "hwloc cannot read the topology");
		else
			read_all(&h, t);
		h.topology_destroy(h.topology);
	}
	if (lib)
		dlclose(lib);
}
