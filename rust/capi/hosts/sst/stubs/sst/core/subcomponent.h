// STUB, see component.h.
#include <sst/core/component.h>
