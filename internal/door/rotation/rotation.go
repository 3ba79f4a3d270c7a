// Package rotation changes the keys that a site signs with, while everything runs on them.
//
// What enters: the request that a use gets a new key. What leaves: generations in the database and in every controller's
// Authority. A new generation is first trusted everywhere; then it signs; and the old one is dropped when nothing depends on it
// any more. Each step is a transaction of its own, which any controller does when it is due.
package rotation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"muster/internal/core"
	"muster/internal/identity"
	"muster/internal/kinds/authority"
	"muster/internal/kinds/cluster"
	"muster/internal/kit/clock"
)

// settle is how long a new generation is known before anything is signed with it, at the least: every controller has read
// it then.
const settle = 3 * time.Second

// look is how often the rows are looked at.
const look = time.Second

// DefaultDeadline is how long a rotation waits at most.
const DefaultDeadline = 30 * 24 * time.Hour

// Name is how people call a use.
func Name(use identity.Use) string {
	return map[identity.Use]string{
		identity.BootTokens: "boot-tokens", identity.Agents: "agents-ca", identity.SSHUsers: "user-ca",
		identity.SSHHosts:  "host-ca",
		identity.SSHLogins: "login-ca", identity.SSHGateways: "gateway-ca", identity.SSHExternal: "external-ca",
		identity.WebApps: "web-ca",
	}[use]
}

// times are how long a new generation is announced, and how long the old one is kept after that, unless other times are given.
func times(use identity.Use) (announce, keep time.Duration) {
	const week, certificates = 7 * 24 * time.Hour, 6 * time.Minute // see certificateLife in the packages that sign
	switch use {
	case identity.SSHUsers: // nodes say which CAs they trust
		return 0, certificates
	case identity.SSHHosts: // people's known hosts do not
		return 0, week
	case identity.SSHLogins:
		return 0, 25 * time.Hour // no login is longer
	case identity.SSHGateways, identity.SSHExternal, identity.WebApps: // somebody has to write them down elsewhere
		return week, certificates
	}
	return 0, 0
}

// Rotator keeps one controller's Authority as the rows say, and the rotations going.
type Rotator struct {
	DB        *core.Store
	Authority *identity.Authority
	Log       *slog.Logger

	mu       sync.Mutex
	revision int64
}

// Establish gives a site its first generations, derived from its root secret, and fills the Authority.
func (k *Rotator) Establish(ctx context.Context) error {
	return k.DB.Update(ctx, func(tx *core.Tx) error {
		root, err := tx.Secret(ctx, "root", identity.NewRoot())
		if err != nil {
			return err
		}
		all, _, err := authority.Generations(ctx, tx)
		if err != nil {
			return err
		}
		if len(all) == 0 {
			if err := first(ctx, tx, root); err != nil {
				return err
			}
		}
		k.mu.Lock()
		k.revision = 0
		k.mu.Unlock()
		return k.Load(ctx, tx)
	})
}

func first(ctx context.Context, tx *core.Tx, root string) error {
	if err := authority.LockGenerations(ctx, tx); err != nil {
		return err
	}
	if all, _, err := authority.Generations(ctx, tx); err != nil || len(all) > 0 { // another controller was first
		return err
	}
	derived, err := identity.First(root)
	if err != nil {
		return err
	}
	for _, g := range derived {
		if err := authority.AddGeneration(ctx, tx, authority.Generation{Use: string(g.Use), Number: g.Number,
			Seed: core.NewSecret(g.Seed)}, true); err != nil {
			return err
		}
	}
	return nil
}

// Load makes the Authority what the rows of a transaction say.
func (k *Rotator) Load(ctx context.Context, tx *core.Tx) error {
	revision, err := authority.GenerationsRevision(ctx, tx)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if revision <= k.revision {
		return nil
	}
	rows, revision, err := authority.Generations(ctx, tx)
	if err != nil {
		return err
	}
	var all []identity.Generation
	for _, row := range rows {
		seed, err := tx.Reveal(ctx, row.Seed)
		if err != nil {
			return err
		}
		all = append(all, identity.Generation{Use: identity.Use(row.Use), Number: row.Number, Seed: seed,
			Signs: !row.SignsAt.IsZero()})
	}
	if err := k.Authority.Set(all); err != nil {
		return err
	}
	k.revision = revision
	return nil
}

// Run keeps the Authority up to date, and takes the steps that are due, until ctx ends.
func (k *Rotator) Run(ctx context.Context) error {
	for {
		err := k.DB.View(ctx, func(tx *core.Tx) error { return k.Load(ctx, tx) })
		if err == nil && slices.ContainsFunc(identity.Uses(), k.Authority.Several) {
			err = k.Step(ctx)
		}
		if err != nil && ctx.Err() == nil {
			k.Log.Error("cannot load the site's keys, or continue their rotation", "error", err)
		}
		if clock.Sleep(ctx, look) != nil {
			return nil
		}
	}
}

// Order is a rotation that somebody wants.
type Order struct {
	Uses     []identity.Use
	Announce *time.Duration // nil: as usual
	Keep     *time.Duration
	Deadline time.Duration // 0: DefaultDeadline
	Now      bool          // the old ones are refused at once, whatever depends on them
	By       string
}

// ErrUnderWay is returned for a use that is being rotated.
var ErrUnderWay = errors.New("is being rotated already")

// Begin makes the new generations. With Now, one that is under way is ended with the old ones.
func Begin(ctx context.Context, tx *core.Tx, o Order) error {
	if err := authority.LockGenerations(ctx, tx); err != nil {
		return err
	}
	all, _, err := authority.Generations(ctx, tx)
	if err != nil {
		return err
	}
	for _, use := range o.Uses {
		newest := authority.Generation{}
		several := 0
		for _, g := range all {
			if g.Use == string(use) {
				newest, several = g, several+1
			}
		}
		if several > 1 && !o.Now {
			waits := "waits"
			if newest.Waits != "" {
				waits += " for " + newest.Waits
			}
			return fmt.Errorf("%s %w: generation %d %s; `muster secrets rotate %s --now` ends that at once", Name(use),
				ErrUnderWay, newest.Number, waits, Name(use))
		}
		announce, keep := times(use)
		if o.Announce != nil {
			announce = *o.Announce
		}
		if o.Keep != nil {
			keep = *o.Keep
		}
		g := authority.Generation{Use: string(use), Number: newest.Number + 1, Seed: core.NewSecret(identity.NewSeed()),
			MadeBy: o.By, Announce: announce, Keep: keep, Deadline: cmp.Or(o.Deadline, DefaultDeadline)}
		if err := authority.AddGeneration(ctx, tx, g, o.Now); err != nil {
			return err
		}
		if o.Now {
			if err := authority.ForgetGenerations(ctx, tx, g.Use, g.Number); err != nil {
				return err
			}
		}
		text := fmt.Sprintf("%s: generation %d is made, by %s", Name(use), g.Number, o.By)
		if o.Now {
			text += "; what older ones signed is refused from now on"
		}
		tx.Log(core.Event{Type: "secrets.rotated", Text: text})
	}
	return cluster.InformAll(ctx, tx)
}

// Step takes the steps that are due. Without a rotation it only looks.
func (k *Rotator) Step(ctx context.Context) error {
	due, err := core.Look(ctx, k.DB, func(tx *core.Tx) (bool, error) { return k.step(ctx, tx, false) })
	if err != nil || !due {
		return err
	}
	return k.DB.Update(ctx, func(tx *core.Tx) error {
		if err := authority.LockGenerations(ctx, tx); err != nil {
			return err
		}
		moved, err := k.step(ctx, tx, true)
		if err == nil && moved {
			err = cluster.InformAll(ctx, tx)
		}
		return err
	})
}

// step goes through the uses that have two generations; write says that it is to do what is due, and not only to say so.
func (k *Rotator) step(ctx context.Context, tx *core.Tx, write bool) (moved bool, err error) {
	all, _, err := authority.Generations(ctx, tx)
	if err != nil {
		return false, err
	}
	byUse := map[identity.Use][]authority.Generation{}
	for _, g := range all {
		byUse[identity.Use(g.Use)] = append(byUse[identity.Use(g.Use)], g)
	}
	var dependents []authority.Dependent
	for _, use := range identity.Uses() {
		generations := byUse[use]
		if len(generations) < 2 {
			continue
		}
		if dependents == nil {
			if dependents, err = authority.Dependents(ctx, tx); err != nil {
				return false, err
			}
		}
		now, err := tx.Now(ctx)
		if err != nil {
			return false, err
		}
		g := generations[len(generations)-1]
		next, waits := next(use, g, now, dependents)
		if next == stay && waits == g.Waits {
			continue
		}
		if !write {
			return true, nil
		}
		if next != stay {
			moved = true
		}
		if err := take(ctx, tx, use, g, next, waits); err != nil {
			return false, err
		}
	}
	return moved, nil
}

// turn is what is to be done with a new generation.
type turn int

const (
	stay turn = iota
	sign
	retire // the ones before it
)

func take(ctx context.Context, tx *core.Tx, use identity.Use, g authority.Generation, next turn, waits string) error {
	switch next {
	case sign:
		tx.Log(core.Event{Type: "secrets.rotated", Text: fmt.Sprintf("%s: generation %d signs from now on", Name(use), g.Number)})
		return authority.SignGeneration(ctx, tx, g)
	case retire:
		tx.Log(core.Event{Type: "secrets.rotated",
			Text: fmt.Sprintf("%s: what was signed before generation %d is refused from now on", Name(use), g.Number)})
		if err := authority.ForgetGenerations(ctx, tx, g.Use, g.Number); err != nil {
			return err
		}
	}
	return authority.SayWaits(ctx, tx, g, waits)
}

// next says what is due for a new generation, or for whom it waits.
func next(use identity.Use, g authority.Generation, now time.Time, dependents []authority.Dependent) (turn, string) {
	late := now.After(g.MadeAt.Add(g.Deadline))
	if g.SignsAt.IsZero() {
		from := g.MadeAt.Add(max(settle, g.Announce))
		if waits := until(from, now); waits != "" && !late {
			return stay, waits
		}
		if use == identity.SSHUsers || use == identity.SSHHosts {
			behind := who(dependents, func(d authority.Dependent) bool { return d.Up && d.Revision < d.Told })
			if behind != "" && !late {
				return stay, behind
			}
		}
		return sign, ""
	}
	behind := who(dependents, func(d authority.Dependent) bool {
		switch use {
		case identity.Agents:
			return d.Agents < g.Number
		case identity.BootTokens:
			return d.Tokens < g.Number
		case identity.SSHHosts:
			return d.Up && d.Hosts < g.Number
		}
		return false
	})
	if behind == "" {
		behind = until(g.SignsAt.Add(max(settle, g.Keep)), now)
	}
	if behind != "" && !late {
		return stay, behind
	}
	return retire, ""
}

func until(at, now time.Time) string {
	if now.Before(at) {
		return at.UTC().Format(time.RFC3339)
	}
	return ""
}

// who names those that are waited for.
func who(dependents []authority.Dependent, behind func(authority.Dependent) bool) string {
	const most = 5
	var names []string
	for _, d := range dependents {
		if behind(d) {
			names = append(names, d.Name)
		}
	}
	if more := len(names) - most; more > 0 {
		names = append(names[:most], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}
