"""What kernels handle: element types, arrays of other libraries, objects, operators, targets."""
