package serve

import (
	"context"
	"fmt"
	"os"
	"testing"

	"muster/internal/drivers"
	"muster/internal/hostd"
)

// TestMain makes the test's program the agent of this host where a controller starts it as that.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == hostd.Verb {
		if err := hostd.Beside(context.Background(), drivers.Substrates(), os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}
