// Package ufm tells NVIDIA's Unified Fabric Manager which ports are in which partitions, by its REST interface (NVIDIA UFM
// Enterprise REST API Guide, "PKey GUIDs Rest API").
//
// What enters: a fabric's intent, and a reader of ports. What leaves: requests to UFM, and how the ports differ from the intent.
//
// It was written from documents and tried on the server of package ufmtest only, never on a real UFM. What UFM tells of
// partitions is what it was told itself, and not what ports hold; so without a reader of ports a port that somebody wrote to from
// its own host is not found.
package ufm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"muster/internal/fabric"
	"muster/internal/kit/clock"
	"muster/internal/kit/wrap"
)

// Config says how a UFM is reached.
type Config struct {
	URL string // "https://ufm.example.org"; plain HTTP to this host only
	// User and Password, or Token: who asks. They are read at each request, so that a secret can be changed; nil: there is none.
	User            string
	Password, Token func() (string, error)
	CA              func() (string, error) // in PEM, who signed UFM's certificate; nil: the system's
	// Elsewhere says that UFM is not on this host, nor where only this host's own things are: neither at its loopback addresses
	// nor at those of its links.
	Elsewhere bool
	// Ports reads every port's table from the port itself, as fabric.Driver.Observe does; it may be called at any time. nil: what
	// UFM believes is all that is known, and tables have no Capacity, so that their room is not counted.
	Ports func(context.Context) (fabric.Tables, error)

	Timeout  time.Duration // of one request; 0: 30 s
	Patience time.Duration // how long ports may take to hold what UFM was told; 0: 20 s
	Pause    time.Duration // before a request that failed is repeated, then twice that, …; 0: 500 ms
	Tries    int           // in all, of what may be repeated; 0: 4
}

// Driver implements fabric.Driver.
type Driver struct {
	config Config
	rest   *client
}

var _ fabric.Driver = (*Driver)(nil)

// New makes a driver. It reads the files once, to say what is wrong with them, and connects to nothing.
func New(c Config) (*Driver, error) {
	c.Timeout, c.Patience = cmp.Or(c.Timeout, 30*time.Second), cmp.Or(c.Patience, 20*time.Second)
	c.Pause, c.Tries = cmp.Or(c.Pause, 500*time.Millisecond), cmp.Or(c.Tries, 4)
	rest, err := newClient(c)
	if err != nil {
		return nil, fmt.Errorf("UFM %s: %w", c.URL, err)
	}
	return &Driver{c, rest}, nil
}

// Apply makes UFM's partitions those of the intent: others are removed. All removals come before all additions, and are read back
// between them, so that a key that has other ports from now on is held by none of its old ones.
func (d *Driver) Apply(ctx context.Context, i fabric.Intent) error {
	if err := d.apply(ctx, i); err != nil {
		if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
			err = fmt.Errorf("%w: %w", ctx.Err(), err)
		}
		return fmt.Errorf("UFM %s: %w", d.config.URL, err)
	}
	return nil
}

func (d *Driver) apply(ctx context.Context, i fabric.Intent) error {
	if err := i.Check(); err != nil {
		return err
	}
	seen, err := d.tables(ctx)
	if err != nil {
		return err
	}
	if err := d.admit(i, seen); err != nil {
		return err
	}
	c := change{Driver: d, want: wanted(i), refused: map[fabric.Key]map[fabric.GUID]error{}, left: map[fabric.Key][]fabric.GUID{}}
	if err := c.carryOut(ctx); err != nil {
		return err
	}
	return d.settle(ctx, i)
}

// admit refuses an intent that would end in a fabric that cannot be managed, or in tables that are too small.
func (d *Driver) admit(i fabric.Intent, seen fabric.Tables) error {
	if seen == nil {
		return nil // ports are not read
	}
	full := fabric.DefaultKey.In(fabric.Full)
	manages := func(g fabric.GUID) bool { return slices.Contains(seen[g].Entries, full) }
	if !slices.ContainsFunc(i.Managers, manages) {
		return fmt.Errorf("%w: none of the managers %v is a full member of the default partition now: name UFM's own port",
			fabric.ErrRefused, i.Managers)
	}
	for g, entries := range i.Tables() {
		if room := seen[g].Capacity; room > 0 && len(entries) > room {
			return fmt.Errorf("%w: port %s would hold %d entries, and its table has room for %d; fewer clusters can use it "+
				"at once",
				fabric.ErrRefused, g, len(entries), room)
		}
	}
	return nil
}

// tables are the ports' own, or nil where they are not read.
func (d *Driver) tables(ctx context.Context) (fabric.Tables, error) {
	if d.config.Ports == nil {
		return nil, nil
	}
	seen, err := d.config.Ports(ctx)
	return seen, wrap.Errorf(err, "read the tables of ports")
}

// Observe reads every port's table from the port itself, by the reader. Without one it says what UFM believes: of ports
// that are up.
func (d *Driver) Observe(ctx context.Context) (fabric.Tables, error) {
	seen, err := d.tables(ctx)
	if err == nil && seen == nil {
		seen, err = d.believed(ctx)
	}
	return seen, wrap.Errorf(err, "UFM %s", d.config.URL)
}

// believed are the tables as they follow from UFM's partitions.
func (d *Driver) believed(ctx context.Context) (fabric.Tables, error) {
	var up []fabric.GUID
	var p partitions
	err := d.again(ctx, func() (err error) {
		if up, err = d.rest.ports(ctx); err == nil {
			p, err = d.rest.partitions(ctx)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	seen := fabric.Tables{}
	all := p.intent().Tables()
	for _, g := range up {
		entries := all[g]
		if entries == nil {
			entries = []fabric.Entry{fabric.DefaultKey.In(fabric.Limited)}
		}
		if p.others == fabric.Full {
			entries = slices.DeleteFunc(entries, func(e fabric.Entry) bool { return e.Key() == fabric.DefaultKey })
			entries = append(entries, fabric.DefaultKey.In(fabric.Full))
		}
		seen[g] = fabric.Port{Entries: entries}
	}
	return seen, nil
}

// settle waits until all ports that answer hold the intent, and says which do not.
func (d *Driver) settle(ctx context.Context, i fabric.Intent) error {
	const look = 50 * time.Millisecond
	for end := time.Now().Add(d.config.Patience); ; {
		seen, err := d.Observe(ctx)
		if err != nil {
			return err
		}
		differ := fabric.Compare(i, seen)
		if differ == nil {
			return nil
		}
		answers := func(x fabric.Difference) bool { return !x.Silent }
		if !slices.ContainsFunc(differ, answers) || time.Now().After(end) {
			return &fabric.Resisted{Ports: differ}
		}
		if err := clock.Sleep(ctx, min(look, d.config.Patience)); err != nil {
			return err
		}
	}
}

// again does what may be repeated until it works, with growing pauses, or until it has failed too often. What UFM refuses is
// not asked again.
func (d *Driver) again(ctx context.Context, do func() error) error {
	pause := d.config.Pause
	for try := 1; ; try++ {
		err := do()
		if err == nil || !errors.Is(err, errTransient) || try >= d.config.Tries || ctx.Err() != nil {
			return err
		}
		if clock.Sleep(ctx, pause) != nil {
			return err
		}
		pause *= 2
	}
}
