// Package wrap says what was done when an error came.
package wrap

import "fmt"

// Errorf adds to an error what was done when it came; nil stays nil.
func Errorf(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
}
