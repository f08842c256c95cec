/* SPDX-License-Identifier: Apache-2.0 */
/* millrace._core: the module itself. */
#include "core.h"

#include <stdlib.h>

/* ---- what others provide, imported when first needed ---- */

static PyObject *import(PyObject **slot, const char *module, const char *name,
			const char *otherwise)
{
	PyObject *mod;

	if (*slot)
		return *slot;
	mod = PyImport_ImportModule(module);
	if (!mod) {
		if (PyErr_ExceptionMatches(PyExc_ModuleNotFoundError))
			PyErr_SetString(PyExc_ImportError, otherwise);
		return NULL;
	}
	*slot = PyObject_GetAttrString(mod, name);
	Py_DECREF(mod);
	return *slot;
}

PyObject *mrpy_asarray(struct mrpy *m)
{
	return import(&m->asarray, "numpy", "asarray",
		      "arrays need NumPy, which is not installed (Debian: "
		      "python3-numpy); batch.tensor(name) works without");
}

PyObject *mrpy_from_dlpack(struct mrpy *m)
{
	return import(&m->from_dlpack, "torch", "from_dlpack",
		      "batch.torch() needs PyTorch, which is not installed "
		      "(Debian: python3-torch)");
}

PyObject *mrpy_json(struct mrpy *m, char *text)
{
	PyObject *f, *out = NULL;

	if (!text)
		return PyErr_NoMemory();
	f = import(&m->json_loads, "json", "loads", "no module json");
	if (f)
		out = PyObject_CallFunction(f, "s", text);
	free(text);
	return out;
}

/* ---- functions ---- */

PyDoc_STRVAR(explain_doc,
	     "explain(pipeline, *, json=False, **options)\n--\n\n"
	     "The plan of a pipeline: types and shapes after each step, what "
	     "is random,\nbuffers. Takes the options of Loader. A text, or "
	     "with json=True a dict.");

static PyObject *explain(PyObject *module, PyObject *args, PyObject *kw)
{
	struct mrpy *m = PyModule_GetState(module);
	PyObject *pipeline = NULL, *out;
	struct mrpy_options o;
	struct mr_err err;
	PyThreadState *gil;
	const char *text;
	char *plan = NULL;
	int rc;

	if (mrpy_options_init(&o, &pipeline, "explain", args, kw, true)) {
		mrpy_options_fini(&o);
		return NULL;
	}
	text = PyBytes_AsString(pipeline);
	gil = PyEval_SaveThread();
	rc = mr_explain(text, &o.opt, o.json, &plan, &err);
	PyEval_RestoreThread(gil);
	mrpy_options_fini(&o);
	Py_DECREF(pipeline);
	if (rc)
		return mrpy_raise(m, &err);
	if (o.json)
		return mrpy_json(m, plan);
	out = mrpy_text(plan);
	free(plan);
	return out;
}

PyDoc_STRVAR(events_doc,
	     "trace_events(events='')\n--\n\n"
	     "How threads count events of the CPU and the kernel on this "
	     "machine, as JSON\nfor millrace.trace; None when there is "
	     "nothing to count.");

static PyObject *trace_events(PyObject *module, PyObject *args)
{
	struct mrpy *m = PyModule_GetState(module);
	const char *events = "";
	char *json = NULL;
	struct mr_err err;
	PyObject *out;

	if (!PyArg_ParseTuple(args, "|s:trace_events", &events))
		return NULL;
	if (mr_trace_events(events, &json, &err))
		return mrpy_raise(m, &err);
	if (!json)
		Py_RETURN_NONE;
	out = mrpy_text(json);
	free(json);
	return out;
}

static PyMethodDef functions[] = {
	{ "explain", MRPY_KEYWORDS(explain), METH_VARARGS | METH_KEYWORDS,
	  explain_doc },
	{ "list", mrpy_list, METH_NOARGS,
	  "list()\n--\n\n"
	  "What pipelines are made of: a list of dicts (kind, name, help, "
	  "missing,\nparams)." },
	{ "trace_events", trace_events, METH_VARARGS, events_doc },
	{ 0 }
};

/* ---- the module ---- */

static int import_views(struct mrpy *m)
{
	PyObject *abc = PyImport_ImportModule("collections.abc");

	if (!abc)
		return -1;
	m->keys_view = PyObject_GetAttrString(abc, "KeysView");
	m->values_view = PyObject_GetAttrString(abc, "ValuesView");
	m->items_view = PyObject_GetAttrString(abc, "ItemsView");
	Py_DECREF(abc);
	return m->keys_view && m->values_view && m->items_view ? 0 : -1;
}

static int module_exec(PyObject *module)
{
	struct mrpy *m = PyModule_GetState(module);

	if (import_views(m) || mrpy_exceptions_add(module, m) ||
	    mrpy_tensor_type(module, m) || mrpy_batch_type(module, m) ||
	    mrpy_loader_types(module, m))
		return -1;
	return PyModule_AddStringConstant(module, "__version__", mr_version());
}

/* Calls visit on everything the module owns. */
#define EACH(visit)                                       \
	do {                                              \
		visit(m->loader_type);                    \
		visit(m->iterator_type);                  \
		visit(m->batch_type);                     \
		visit(m->tensor_type);                    \
		visit(m->keys_view);                      \
		visit(m->values_view);                    \
		visit(m->items_view);                     \
		visit(m->asarray);                        \
		visit(m->from_dlpack);                    \
		visit(m->json_loads);                     \
		for (int i = 0; i < MRPY_EXCEPTIONS; i++) \
			visit(m->exception[i]);           \
	} while (0)

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
	struct mrpy *m = PyModule_GetState(module);

	EACH(Py_VISIT);
	return 0;
}

static int module_clear(PyObject *module)
{
	struct mrpy *m = PyModule_GetState(module);

	EACH(Py_CLEAR);
	return 0;
}

static void module_free(void *module)
{
	module_clear(module);
}

static PyModuleDef_Slot slots[] = {
	{ Py_mod_exec, MRPY_SLOT(module_exec) },
	{ 0, NULL },
};

static struct PyModuleDef definition = {
	PyModuleDef_HEAD_INIT,
	.m_name = "millrace._core",
	.m_doc = "Millrace's C part; use `import millrace`.",
	.m_size = sizeof(struct mrpy),
	.m_methods = functions,
	.m_slots = slots,
	.m_traverse = module_traverse,
	.m_clear = module_clear,
	.m_free = module_free,
};

PyMODINIT_FUNC PyInit__core(void);

PyMODINIT_FUNC PyInit__core(void)
{
	return PyModuleDef_Init(&definition);
}
