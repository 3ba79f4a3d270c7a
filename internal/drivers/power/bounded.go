package power

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// patience bounds every call of a driver.
const patience = 10 * time.Second

// bounded keeps the promise that no call takes longer than patience, and says in every error what was tried.
type bounded struct {
	driver  Driver
	control string
}

func (b bounded) State(ctx context.Context) (state State, err error) {
	err = b.run(ctx, "look at power", func(ctx context.Context) error {
		state, err = b.driver.State(ctx)
		return err
	})
	if err != nil {
		state = Unknown
	}
	return state, err
}

func (b bounded) On(ctx context.Context) error  { return b.run(ctx, "switch on", b.driver.On) }
func (b bounded) Off(ctx context.Context) error { return b.run(ctx, "switch off", b.driver.Off) }
func (b bounded) BootFromNetwork(ctx context.Context) error {
	return b.run(ctx, "ask for a boot from the network", b.driver.BootFromNetwork)
}

func (b bounded) Accounts(ctx context.Context) (accounts []string, err error) {
	a, ok := b.driver.(Accountant)
	if !ok {
		return nil, ErrUnsupported
	}
	err = b.run(ctx, "list the BMC's users", func(ctx context.Context) error {
		accounts, err = a.Accounts(ctx)
		return err
	})
	slices.Sort(accounts)
	return accounts, err
}

func (b bounded) run(ctx context.Context, what string, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := do(ctx); err != nil {
		// What a library makes of the end of the context does not always say so, and a socket's deadline may come first.
		ended := ctx.Err()
		if deadline, _ := ctx.Deadline(); ended == nil && !time.Now().Before(deadline) {
			ended = context.DeadlineExceeded
		}
		if ended != nil && !errors.Is(err, ended) {
			err = fmt.Errorf("%w: %w", ended, err)
		}
		return fmt.Errorf("%s by %s: %w", what, b.control, err)
	}
	return nil
}
