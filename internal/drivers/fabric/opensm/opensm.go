// Package opensm makes partitions of an InfiniBand fabric be what they are meant to be, by the subnet manager OpenSM.
//
// What enters: the intent for a whole fabric. What leaves: OpenSM's partitions.conf at every manager, and the tables that the
// ports hold, read from the ports themselves.
//
// OpenSM fails open: with a file that is missing, empty or wrong it makes all ports full members of one partition. So a file
// is tried before it is written: the real opensm carries it out on a simulated copy of the fabric, and only where every port
// came to hold what it should does a manager ever see it. It is replaced in one step, since any link that changes makes a manager
// read it. And what came of it is read back from all ports; where that is a fabric that is open, the file from before is put
// back.
package opensm

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"muster/internal/fabric"
	"muster/internal/kit/clock"
)

// Observer reads a fabric from its parts, not from what a manager believes. All methods may be called again, and at once.
type Observer interface {
	// Snapshot is the fabric as ibnetdiscover prints it.
	Snapshot(ctx context.Context) ([]byte, error)
	// Master is the port of the manager that is in charge.
	Master(ctx context.Context) (fabric.GUID, error)
	// Tables reads the tables of all adapters' ports of a snapshot. Those that do not answer, or that are no longer where
	// the snapshot has them, are not in it.
	Tables(ctx context.Context, snapshot []byte) (fabric.Tables, error)
}

// Config says which managers a fabric has, and how to look at it.
type Config struct {
	Managers []Manager // all that could ever be in charge
	Observer Observer
	Scratch  string // a folder for simulated copies of the fabric; "": the system's own
	// Reserve is how many slots of each table stay free. 0: 1, since the last one stands for "none" on ConnectX-3.
	Reserve int
	// Settle is how long a port may differ after its manager says that it is done. 0: 2 s.
	Settle time.Duration
	// Patience is how long a manager may take until it says so. 0: 1 min.
	Patience time.Duration
}

// OpenSM implements fabric.Driver. Its methods may be called at the same time.
type OpenSM struct {
	Config
	turn chan struct{} // holds one token while no call writes
}

var _ fabric.Driver = (*OpenSM)(nil)

// New makes a driver; it keeps nothing but its configuration.
func New(c Config) (*OpenSM, error) {
	if len(c.Managers) == 0 || c.Observer == nil {
		return nil, errors.New("an InfiniBand fabric needs at least one subnet manager, and eyes to read its ports with")
	}
	c.Reserve = cmp.Or(c.Reserve, 1)
	c.Settle, c.Patience = cmp.Or(c.Settle, 2*time.Second), cmp.Or(c.Patience, time.Minute)
	o := &OpenSM{Config: c, turn: make(chan struct{}, 1)}
	o.turn <- struct{}{}
	return o, nil
}

// Observe reads every adapter's port. A manager's file that somebody else changed is put back first, before a link that
// changes makes the manager read it.
func (o *OpenSM) Observe(ctx context.Context) (fabric.Tables, error) {
	select {
	case <-o.turn:
		err := o.mend(ctx)
		o.turn <- struct{}{}
		if err != nil {
			return nil, err
		}
	default: // the one whose turn it is writes all files
	}
	return o.see(ctx)
}

// see reads every adapter's port.
func (o *OpenSM) see(ctx context.Context) (fabric.Tables, error) {
	snapshot, err := o.Observer.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return o.Observer.Tables(ctx, snapshot)
}

// mend puts files back that are not the copies beside them. A manager that cannot be asked is left: nothing new reaches it.
func (o *OpenSM) mend(ctx context.Context) error {
	for _, m := range o.Managers {
		file, copied, err := m.Files(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if _, bad := Parse(copied); err != nil || bad != nil || bytes.Equal(file, copied) {
			continue
		}
		if err := m.Write(ctx, copied); err != nil {
			return fmt.Errorf("the partitions of the manager at port %s were changed by somebody else: %w", m.Port(), err)
		}
		_ = m.Reload(ctx) // one that does not run reads the file when it starts
	}
	return nil
}

// Apply makes the intent the fabric's.
func (o *OpenSM) Apply(ctx context.Context, i fabric.Intent) error {
	select {
	case <-o.turn:
		defer func() { o.turn <- struct{}{} }()
	case <-ctx.Done():
		return ctx.Err()
	}
	file, err := o.candidate(i)
	if err != nil {
		return err
	}
	c := change{OpenSM: o, intent: i, file: file}
	if err := c.look(ctx); err != nil {
		return refused(ctx, err)
	}
	if err := c.room(); err != nil {
		return err
	}
	if different := fabric.Compare(i, c.before); c.written && onlySilent(different) {
		return outcome(different)
	}
	if !c.written {
		if err := preflight(ctx, o.Scratch, c.snapshot, file, i); err != nil {
			return err
		}
	}
	if err := c.tell(ctx, c.file); err != nil {
		return err
	}
	return c.verify(ctx)
}

// refused is for what fails before anything was changed.
func refused(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("%w: %w", fabric.ErrRefused, err)
}

// candidate is the file for an intent that this driver may carry out.
func (o *OpenSM) candidate(i fabric.Intent) ([]byte, error) {
	for _, m := range o.Managers {
		if !slices.Contains(i.Managers, m.Port()) {
			return nil, fmt.Errorf("%w: the subnet manager's own port %s is not among the managers, and would not be reached "+
				"any more", fabric.ErrRefused, m.Port())
		}
	}
	for _, port := range i.Managers {
		if !slices.ContainsFunc(o.Managers, func(m Manager) bool { return m.Port() == port }) {
			return nil, fmt.Errorf("%w: port %s is not a subnet manager that Muster tells, and would hear all tenants",
				fabric.ErrRefused, port)
		}
	}
	return write(i)
}

// change is one Apply.
type change struct {
	*OpenSM
	intent fabric.Intent
	file   []byte

	snapshot []byte
	before   fabric.Tables
	master   Manager
	last     []byte        // the file to go back to
	previous fabric.Intent // what that file says
	written  bool          // every manager has the file already
}

// look sees the fabric and its managers as they are before the change.
func (c *change) look(ctx context.Context) (err error) {
	if c.snapshot, err = c.Observer.Snapshot(ctx); err != nil {
		return err
	}
	port, err := c.Observer.Master(ctx)
	if err != nil {
		return err
	}
	for _, m := range c.Managers {
		if m.Port() == port {
			c.master = m
		}
	}
	if c.master == nil {
		return fmt.Errorf("the fabric is managed from port %s, which is none of the managers that Muster tells; stop that "+
			"one, or name it", port)
	}
	if c.before, err = c.Observer.Tables(ctx, c.snapshot); err != nil {
		return err
	}
	c.written = true
	c.last, c.previous = nil, fabric.Intent{Managers: c.intent.Managers}
	for _, m := range c.Managers {
		file, copied, err := m.Files(ctx)
		if err != nil {
			return err
		}
		c.written = c.written && bytes.Equal(file, c.file) && bytes.Equal(copied, c.file)
		if m.Port() != port {
			continue
		}
		for _, text := range [][]byte{copied, file} {
			if said, err := Parse(text); err == nil && c.last == nil {
				c.last, c.previous = text, said
			}
		}
	}
	if c.last == nil {
		c.last = Render(c.previous)
	}
	return nil
}

// room refuses an intent that a port's table has no slots for. OpenSM would drop what is too much, and move the rest.
func (c *change) room() error {
	for port, entries := range c.intent.Tables() {
		if p, seen := c.before[port]; seen && len(entries)+c.Reserve > p.Capacity {
			return fmt.Errorf("%w: port %s would be in %d partitions, and its table has room for %d; end partitions of the "+
				"site's own that are not needed, or clusters that share the port",
				fabric.ErrRefused, port, len(entries), p.Capacity-c.Reserve)
		}
	}
	return nil
}

// tell gives every manager a file before any of them is signalled, and the one in charge its signal last: a manager that takes
// over meanwhile has the file.
func (c *change) tell(ctx context.Context, file []byte) error {
	for _, m := range c.Managers {
		if err := m.Write(ctx, file); err != nil {
			return err
		}
	}
	return nil
}

// signal has the managers read their files, and says where the log of the one in charge was before.
func (c *change) signal(ctx context.Context) (offset int64, err error) {
	for _, m := range c.Managers {
		if m.Port() != c.master.Port() {
			_ = m.Reload(ctx) // one that does not run reads the file when it starts
		}
	}
	if _, offset, err = c.master.Log(ctx, -1); err != nil {
		return 0, err
	}
	return offset, c.master.Reload(ctx)
}

// verify reads the fabric back until it is as it should be, or until it will not be.
func (c *change) verify(ctx context.Context) error {
	offset, err := c.signal(ctx)
	if err != nil {
		return err
	}
	var done time.Time // when the manager was first seen to be done
	for began, pause := time.Now(), 10*time.Millisecond; ; pause = min(2*pause, time.Second) {
		log, _, err := c.master.Log(ctx, offset)
		if err != nil {
			return err
		}
		if words := trouble(log); words != "" {
			return c.rollBack(ctx, "its manager said: "+words)
		}
		if done.IsZero() && sweptLine.MatchString(log) {
			done = time.Now()
		}
		if !done.IsZero() {
			if ended, err := c.judge(ctx, time.Since(done) >= c.Settle); ended {
				return err
			}
		} else if time.Since(began) > c.Patience {
			return fmt.Errorf("the subnet manager at port %s was told, and did not say within %s that it was done; does it "+
				"run, and is force_log_flush TRUE in its opensm.conf?", c.master.Port(), c.Patience)
		} else if pause == time.Second {
			if err := c.inCharge(ctx); err != nil {
				return err
			}
		}
		if clock.Sleep(ctx, pause) != nil {
			return ctx.Err()
		}
	}
}

// inCharge is an error where another manager has taken over since the one in charge was told: it has the file as well, and what
// it made of it is to be seen by the next Apply. That it cannot be asked now says nothing.
func (c *change) inCharge(ctx context.Context) error {
	port, err := c.Observer.Master(ctx)
	if err != nil || port == c.master.Port() {
		return ctx.Err()
	}
	return fmt.Errorf("the subnet manager at port %s took over while that at port %s was told; it is to be told again", port,
		c.master.Port())
}

// judge reads all ports once, and says whether it is over and how it ended. late: ports have had their time.
func (c *change) judge(ctx context.Context, late bool) (ended bool, err error) {
	seen, err := c.see(ctx)
	if err != nil {
		return true, err
	}
	different := fabric.Compare(c.intent, seen)
	few := max(1, len(seen)/4)
	if fresh := c.fresh(different); len(fresh) > few {
		return true, c.rollBack(ctx, fmt.Sprintf("%d ports came to hold what no partition gives them, the first: %s", len(fresh),
			fresh[0]))
	}
	if !late && slices.ContainsFunc(different, c.unexplained) {
		return false, nil
	}
	file, _, err := c.master.Files(ctx)
	if err != nil {
		return true, err
	}
	if !bytes.Equal(file, c.file) {
		return true, c.rollBack(ctx, "somebody else changed its manager's partitions meanwhile")
	}
	if stuck := slices.DeleteFunc(slices.Clone(different), func(d fabric.Difference) bool { return d.Silent }); len(stuck) > few {
		return true, fmt.Errorf("the subnet manager at port %s says that it is done, and %d ports differ, the first: %s",
			c.master.Port(), len(stuck), stuck[0])
	}
	return true, outcome(different)
}

// fresh lists the ports that hold what they did not hold before, and what neither intent gives them.
func (c *change) fresh(different []fabric.Difference) []fabric.Difference {
	var all []fabric.Difference
	given := c.previous.Tables()
	for _, d := range different {
		for _, e := range d.Surplus {
			if !slices.Contains(c.before[d.Port].Entries, e) && !slices.Contains(given[d.Port], e) &&
				e != fabric.DefaultKey.In(fabric.Limited) {
				all = append(all, d)
				break
			}
		}
	}
	return all
}

// unexplained says whether time may still change how a port differs: not if it is silent, nor if it held before the change what
// its manager never gave it.
func (c *change) unexplained(d fabric.Difference) bool {
	if d.Silent {
		return false
	}
	given := c.previous.Tables()[d.Port]
	return len(d.Missing) > 0 || slices.ContainsFunc(d.Surplus, func(e fabric.Entry) bool {
		return !slices.Contains(c.before[d.Port].Entries, e) || slices.Contains(given, e)
	})
}

// rollBack puts the file from before back, whether ctx has ended or not, and says what came of it. It always returns an error.
func (c *change) rollBack(ctx context.Context, why string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.Patience)
	defer cancel()
	if err := c.restore(ctx); err != nil {
		return fmt.Errorf("the fabric is not what was asked for (%s), and could not be put back: %w; what holds now is to be "+
			"observed", why, err)
	}
	return fmt.Errorf("the fabric was not what was asked for (%s); the partitions from before are back, read from all ports", why)
}

func (c *change) restore(ctx context.Context) error {
	if err := c.tell(ctx, c.last); err != nil {
		return err
	}
	offset, err := c.signal(ctx)
	if err != nil {
		return err
	}
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		log, _, err := c.master.Log(ctx, offset)
		if err != nil {
			return err
		}
		if words := trouble(log); words != "" {
			return errors.New(words)
		}
		seen, err := c.see(ctx)
		if err != nil {
			return err
		}
		bad := slices.DeleteFunc(fabric.Compare(c.previous, seen), func(d fabric.Difference) bool {
			return !slices.ContainsFunc(d.Surplus, func(e fabric.Entry) bool {
				return !slices.Contains(c.before[d.Port].Entries, e)
			})
		})
		if len(bad) == 0 && sweptLine.MatchString(log) {
			return nil
		}
		if clock.Sleep(ctx, pause) != nil {
			if len(bad) > 0 {
				return fmt.Errorf("%s", bad[0])
			}
			return ctx.Err()
		}
	}
}

func onlySilent(different []fabric.Difference) bool {
	return !slices.ContainsFunc(different, func(d fabric.Difference) bool { return !d.Silent })
}

// outcome is what Apply returns where the managers hold the intent.
func outcome(different []fabric.Difference) error {
	if len(different) == 0 {
		return nil
	}
	return &fabric.Resisted{Ports: different}
}
