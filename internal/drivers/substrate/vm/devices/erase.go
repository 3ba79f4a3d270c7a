package devices

import (
	"context"
	"errors"
	"fmt"
	"io"

	"muster/internal/inspection"
)

// HostEraser erases disks of this host as an inspection does, and proves it as an inspection does.
type HostEraser struct {
	Tools   Tools
	Console io.Writer // hears what is done
}

// Erase erases disks; shared says that others of their controller are in use.
func (e HostEraser) Erase(ctx context.Context, disks []string, shared bool) error {
	var failed []error
	for _, receipt := range inspection.EraseDisks(ctx, disks, shared, e.Console, inspection.Options{Tools: e.Tools}) {
		if !receipt.OK {
			failed = append(failed, fmt.Errorf("%s: %s", receipt.Disk, receipt.Error))
		}
	}
	return errors.Join(failed...)
}
