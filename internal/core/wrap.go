package core

import "muster/internal/kit/wrap"

// Wrapf adds to an error what was done when it came; nil stays nil.
func Wrapf(err error, format string, args ...any) error { return wrap.Errorf(err, format, args...) }
