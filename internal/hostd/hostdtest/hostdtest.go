// Package hostdtest makes a test's program the agent of its host, for tests of controllers.
package hostdtest

import (
	"context"
	"fmt"
	"os"
	"testing"

	"muster/internal/drivers"
	"muster/internal/hostd"
)

// Main runs the tests, or the agent where a controller has started the program as that. Call it from TestMain.
func Main(m *testing.M) {
	if len(os.Args) < 2 || os.Args[1] != hostd.Verb {
		os.Exit(m.Run())
	}
	if err := hostd.Beside(context.Background(), drivers.Substrates(), os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
