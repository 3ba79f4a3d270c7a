package agents

import (
	"context"

	"muster/internal/core"
	"muster/internal/kit/lists"
)

// follow keeps run going for each thing that list has, as it is there, until ctx ends; name tells things apart. What is gone or
// has changed is ended before anything begins, and gone hears of what is gone. Where list fails, the log has failure, and all
// stays as it is until the next look. When follow returns, all has ended.
func follow[T comparable](ctx context.Context, d *Doors, failure string, list func(context.Context, *core.Tx) ([]T, error),
	name func(T) string, run func(context.Context, T), gone func(T)) {
	type running struct {
		begun
		as T
	}
	all := map[string]running{}
	defer func() {
		for _, r := range all {
			r.end()
		}
	}()
	d.DB.Follow(ctx, rests, looks, func() {
		things, err := core.Look(ctx, d.DB, func(tx *core.Tx) ([]T, error) { return list(ctx, tx) })
		if err != nil {
			if ctx.Err() == nil {
				d.Log.Error(failure, "error", err)
			}
			return
		}
		wanted := lists.By(things, name)
		over := map[string]running{}
		for key, r := range all {
			if as, still := wanted[key]; !still || as != r.as {
				r.stop() // all of them, before the first is waited for
				over[key] = r
			}
		}
		for key, r := range over {
			r.end()
			delete(all, key)
			if _, still := wanted[key]; !still {
				gone(r.as)
			}
		}
		for key, as := range wanted {
			if _, runs := all[key]; !runs {
				all[key] = running{begin(ctx, func(ctx context.Context) { run(ctx, as) }), as}
			}
		}
	})
}

// begun is what was begun and goes on until it is ended.
type begun struct {
	stop context.CancelFunc
	done chan struct{}
}

func begin(ctx context.Context, do func(context.Context)) begun {
	ctx, stop := context.WithCancel(ctx)
	b := begun{stop, make(chan struct{})}
	go func() {
		defer close(b.done)
		do(ctx)
	}()
	return b
}

// end returns when it has ended.
func (b begun) end() {
	b.stop()
	<-b.done
}
