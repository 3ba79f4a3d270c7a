package devices

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
)

// HostTools runs this host's programs.
type HostTools struct{}

// Run runs one.
func (HostTools) Run(ctx context.Context, argv ...string) ([]byte, error) {
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).Output()
	if exit, is := errors.AsType[*exec.ExitError](err); is {
		err = fmt.Errorf("%v: %w: %s", argv, err, bytes.TrimSpace(exit.Stderr))
	}
	return out, err
}
