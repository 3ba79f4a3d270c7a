package opensm

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"muster/internal/fabric"
)

// Observer read a fabric from its parts, not from what a manager believes. All methods may be called again, and at once.
type Observer interface {
	// Snapshot is the fabric as ibnetdiscover prints it.
	Snapshot(ctx context.Context) ([]byte, error)
	// Master is the port of the manager that is in charge.
	Master(ctx context.Context) (fabric.GUID, error)
	// Tables reads the tables of all adapters' ports of a snapshot. Those that do not answer, or that are no longer where
	// the snapshot has them, are not in it.
	Tables(ctx context.Context, snapshot []byte) (fabric.Tables, error)
}

// Diags are Observer that use the programs of infiniband-diags, on a host with an adapter on the fabric.
type Diags struct {
	Shell   Shell
	Options []string // for every program: -C mlx5_1, -P 1, or -z with a file that names the fabric's M_Key
	AtOnce  int      // shells that query at the same time; 0: 4
}

var _ Observer = Diags{}

func (d Diags) run(ctx context.Context, program string) ([]byte, error) {
	return d.Shell.Run(ctx, program+" "+quotedAll(d.Options)+"\n")
}

// Snapshot runs ibnetdiscover.
func (d Diags) Snapshot(ctx context.Context) ([]byte, error) {
	text, err := d.run(ctx, "ibnetdiscover")
	if err != nil {
		return nil, fmt.Errorf("looking at the fabric: %w", err)
	}
	return text, nil
}

// Master runs sminfo.
func (d Diags) Master(ctx context.Context) (fabric.GUID, error) {
	text, err := d.run(ctx, "sminfo")
	if err != nil {
		return 0, fmt.Errorf("nobody says who manages the fabric; does opensm run? %w", err)
	}
	return parseMaster(text)
}

// Tables runs smpquery for each port, and ibnetdiscover once more: a port that moved meanwhile was not the one that was read.
func (d Diags) Tables(ctx context.Context, snapshot []byte) (fabric.Tables, error) {
	before, err := parsePlaces(snapshot)
	if err != nil {
		return nil, err
	}
	seen, err := d.query(ctx, before)
	if err != nil {
		return nil, fmt.Errorf("reading the ports' tables: %w", err)
	}
	now, err := d.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	after, err := parsePlaces(now)
	if err != nil {
		return nil, err
	}
	for g := range seen {
		if after[g] != before[g] {
			delete(seen, g)
		}
	}
	return seen, nil
}

// query reads all places, divided between some shells.
func (d Diags) query(ctx context.Context, places map[fabric.GUID]lowestFree) (fabric.Tables, error) {
	shells := d.AtOnce
	if shells == 0 {
		shells = 4
	}
	scripts := make([]strings.Builder, min(shells, len(places)))
	n := 0
	for g, at := range places {
		fmt.Fprintf(&scripts[n%len(scripts)], "echo port %s\nsmpquery pkeys %s %d 2>&1 || echo failed\n", g, quotedAll(d.Options), at.lid)
		n++
	}
	type answer struct {
		tables fabric.Tables
		err    error
	}
	answers := make([]answer, len(scripts))
	var group sync.WaitGroup
	for n := range scripts {
		group.Go(func() {
			out, err := d.Shell.Run(ctx, scripts[n].String())
			if err == nil {
				answers[n].tables, err = parseTables(string(out))
			}
			answers[n].err = err
		})
	}
	group.Wait()
	all := fabric.Tables{}
	for _, a := range answers {
		if a.err != nil {
			return nil, a.err
		}
		for g, p := range a.tables {
			all[g] = p
		}
	}
	return all, nil
}

// parseTables reads what query's scripts print. Ports whose table did not come whole are not in it.
func parseTables(text string) (fabric.Tables, error) {
	all := fabric.Tables{}
	for n, block := range strings.Split("\n"+text, "\nport ") {
		head, table, _ := strings.Cut(block, "\n")
		if n == 0 {
			if strings.TrimSpace(block) != "" {
				return nil, fmt.Errorf("smpquery: %q was not asked for", block)
			}
			continue
		}
		g, err := fabric.ParseGUID(head)
		if err != nil {
			return nil, err
		}
		if p, err := parseTable(table); err == nil {
			all[g] = p
		}
	}
	return all, nil
}
