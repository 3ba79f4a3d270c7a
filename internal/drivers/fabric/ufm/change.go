package ufm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"muster/internal/fabric"
	"muster/internal/kit/clock"
)

// members of one partition.
type members = map[fabric.GUID]fabric.Membership

// wanted is what UFM is to have: partitions with members, and the managers as full members of the default one. UFM drops a
// partition whose last member goes, so one without any is none.
func wanted(i fabric.Intent) map[fabric.Key]members {
	all := map[fabric.Key]members{fabric.DefaultKey: {}}
	for _, g := range i.Managers {
		all[fabric.DefaultKey][g] = fabric.Full
	}
	for _, p := range i.Partitions {
		if len(p.Members) > 0 {
			all[p.Key] = p.Members
		}
	}
	return all
}

// change brings UFM from what it has to what is wanted. What it has is looked up before each step, so that a step that was half
// done, or done without an answer, is no different from one that was not begun.
type change struct {
	*Driver
	want    map[fabric.Key]members
	refused map[fabric.Key]map[fabric.GUID]error // that UFM does not take
	left    map[fabric.Key][]fabric.GUID         // that were taken out, and may hold the key for a moment yet
}

// step is a request about some members of one partition.
type step struct {
	key    fabric.Key
	remove bool
	as     fabric.Membership
	ports  []fabric.GUID
}

// mostPorts of one request: those of a removal stand in its URL.
const mostPorts = 50

// carryOut asks for one round of removals or of additions after the other, until UFM says that it has what is wanted.
func (c *change) carryOut(ctx context.Context) error {
	last, stuck := "", 0
	for first := true; ; first = false {
		var now partitions
		if err := c.again(ctx, func() (err error) { now, err = c.rest.partitions(ctx); return err }); err != nil {
			return err
		}
		if first && now.others == fabric.Full {
			return fmt.Errorf("%w: UFM makes every port a full member of the default partition, so that all tenants hear each "+
				"other; set default_membership = limited in its gv.cfg and restart it",
				fabric.ErrRefused)
		}
		steps := c.next(now)
		if len(steps) == 0 {
			return nil
		}
		if text := fmt.Sprint(steps); text == last {
			stuck++
		} else {
			last, stuck = text, 0
		}
		if stuck >= c.config.Tries {
			return fmt.Errorf("it was asked %d times and has not done it: %s", stuck, steps[0])
		}
		if !steps[0].remove {
			c.letGo(ctx)
		}
		if err := c.round(ctx, steps); err != nil {
			return err
		}
	}
}

// next are the steps that come now: removals while there are any, else additions.
func (c *change) next(now partitions) []step {
	var removals, additions []step
	keys := slices.Sorted(maps.Keys(c.want))
	for key := range now.members {
		if c.want[key] == nil {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		has, want := now.members[key], c.want[key]
		var out []fabric.GUID
		in := map[fabric.Membership][]fabric.GUID{}
		for g, as := range has {
			if key == fabric.DefaultKey {
				// UFM itself makes switches, routers and gateways its full members; any other full member shows in the ports'
				// tables
				break
			}
			if wanted, ok := want[g]; !ok || wanted != as {
				out = append(out, g)
			}
		}
		for g, as := range want {
			if held, ok := has[g]; (!ok || held != as) && c.refused[key][g] == nil {
				in[as] = append(in[as], g)
			}
		}
		removals = append(removals, divided(step{key: key, remove: true}, out)...)
		additions = append(additions, divided(step{key: key, as: fabric.Limited}, in[fabric.Limited])...)
		additions = append(additions, divided(step{key: key, as: fabric.Full}, in[fabric.Full])...)
	}
	if len(removals) > 0 {
		return removals
	}
	return additions
}

// divided makes requests of a size that every server takes.
func divided(s step, ports []fabric.GUID) (all []step) {
	slices.Sort(ports)
	for some := range slices.Chunk(ports, mostPorts) {
		s.ports = some
		all = append(all, s)
	}
	return all
}

func (s step) String() string {
	if s.remove {
		return fmt.Sprintf("remove %v from partition %s", s.ports, s.key)
	}
	return fmt.Sprintf("add %v to partition %s", s.ports, s.key)
}

// round asks for all steps. A step whose answer is lost, or that the server failed in, is left to the next look: both kinds may
// be repeated, since a member that is added twice is a member, and one that is gone stays gone.
func (c *change) round(ctx context.Context, steps []step) error {
	for _, s := range steps {
		err := c.ask(ctx, s)
		switch {
		case err == nil, errors.Is(err, errUnknown) && s.remove:
			if s.remove {
				c.left[s.key] = append(c.left[s.key], s.ports...)
			}
		case errors.Is(err, errTransient) && ctx.Err() == nil:
			return clock.Sleep(ctx, c.config.Pause)
		default:
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

// ask asks for one step. Where UFM does not take all of some ports it is asked for each half: one port that it does not know
// keeps no other one out.
func (c *change) ask(ctx context.Context, s step) error {
	if s.remove {
		return c.rest.remove(ctx, s.key, s.ports)
	}
	err := c.rest.add(ctx, s.key, s.as, s.ports)
	if !errors.Is(err, errUnfit) {
		return err
	}
	if len(s.ports) == 1 {
		if c.refused[s.key] == nil {
			c.refused[s.key] = map[fabric.GUID]error{}
		}
		c.refused[s.key][s.ports[0]] = err
		return nil
	}
	half := len(s.ports) / 2
	for _, some := range [][]fabric.GUID{s.ports[:half], s.ports[half:]} {
		s.ports = some
		if err := c.ask(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// letGo waits until ports that were taken out of a partition do not hold its key any more. It waits for Patience at most: a port
// that does not obey its manager holds nothing up, and is found when all is read.
func (c *change) letGo(ctx context.Context) {
	const look = 20 * time.Millisecond
	for end := time.Now().Add(c.config.Patience); len(c.left) > 0 && time.Now().Before(end); {
		seen, err := c.tables(ctx)
		if err != nil || seen == nil {
			break
		}
		for key, ports := range c.left {
			held := slices.DeleteFunc(ports, func(g fabric.GUID) bool {
				return !slices.ContainsFunc(seen[g].Entries, func(e fabric.Entry) bool { return e.Key() == key })
			})
			if c.left[key] = held; len(held) == 0 {
				delete(c.left, key)
			}
		}
		if len(c.left) > 0 && clock.Sleep(ctx, min(look, c.config.Patience)) != nil {
			break
		}
	}
	clear(c.left)
}
