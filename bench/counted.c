/* Calls a Python function so that callgrind counts the instructions of this call, and no others. */
#include <valgrind/callgrind.h>

typedef struct _object PyObject;
PyObject *PyObject_CallFunctionObjArgs(PyObject *function, ...);

PyObject *counted(PyObject *function, PyObject *first, PyObject *second) {
    CALLGRIND_TOGGLE_COLLECT;
    PyObject *result = PyObject_CallFunctionObjArgs(function, first, second, (PyObject *)0);
    CALLGRIND_TOGGLE_COLLECT;
    return result;
}
