// Package diags reads an InfiniBand fabric from its parts, with the programs of infiniband-diags on a host that a shell reaches.
// Drivers of several managers read by it; it changes nothing.
//
// What enters: a host and options. What leaves: snapshots, the master's port, tables of ports.
package diags

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"

	"muster/internal/fabric"
	"muster/internal/kit/pattern"
	"muster/internal/kit/wrap"
)

// Programs are those of infiniband-diags, on a host with an adapter on the fabric. All methods may be called again, and at
// once.
type Programs struct {
	Shell   Shell
	Options []string // for every program: -C mlx5_1, -P 1, or -z with a file that names the fabric's M_Key
}

func (p Programs) run(ctx context.Context, program string) ([]byte, error) {
	return p.Shell.Run(ctx, program+" "+quotedAll(p.Options)+"\n")
}

// Snapshot is the fabric as ibnetdiscover prints it.
func (p Programs) Snapshot(ctx context.Context) ([]byte, error) {
	text, err := p.run(ctx, "ibnetdiscover")
	return text, wrap.Errorf(err, "looking at the fabric")
}

// Master is the port of the manager that is in charge, as sminfo says.
func (p Programs) Master(ctx context.Context) (fabric.GUID, error) {
	text, err := p.run(ctx, "sminfo")
	if err != nil {
		return 0, fmt.Errorf("nobody says who manages the fabric; does opensm run? %w", err)
	}
	return parseMaster(text)
}

// Tables reads the tables of all adapters' ports of a snapshot. Those that do not answer, or that are no longer where the
// snapshot has them, are not in it: smpquery is run for each port, and ibnetdiscover once more, since a port that moved
// meanwhile was not the one that was read.
func (p Programs) Tables(ctx context.Context, snapshot []byte) (fabric.Tables, error) {
	before, err := Places(snapshot)
	if err != nil {
		return nil, err
	}
	seen, err := p.query(ctx, before)
	if err != nil {
		return nil, fmt.Errorf("reading the ports' tables: %w", err)
	}
	now, err := p.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	after, err := Places(now)
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

// atOnce is how many shells query at the same time.
const atOnce = 4

// query reads all places, divided between some shells.
func (p Programs) query(ctx context.Context, places map[fabric.GUID]Place) (fabric.Tables, error) {
	scripts := make([]strings.Builder, min(atOnce, len(places)))
	n := 0
	for g, at := range places {
		fmt.Fprintf(&scripts[n%len(scripts)], "echo port %s\nsmpquery pkeys %s %d 2>&1 || echo failed\n", g, quotedAll(p.Options),
			at.LID)
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
			out, err := p.Shell.Run(ctx, scripts[n].String())
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
		maps.Copy(all, a.tables)
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
		if port, err := parseTable(table); err == nil {
			all[g] = port
		}
	}
	return all, nil
}

// Reader reads every port's table from the port itself, as fabric.Driver.Observe does, for drivers whose manager is no
// opensm: from a host on the fabric, "here" or whatever ssh takes, with options for the diagnostic programs. It connects to
// nothing yet.
func Reader(host, options string) (func(context.Context) (fabric.Tables, error), error) {
	shell, err := ShellOf(host)
	if err != nil {
		return nil, err
	}
	observer := Programs{Shell: shell, Options: strings.Fields(options)}
	return func(ctx context.Context) (fabric.Tables, error) {
		snapshot, err := observer.Snapshot(ctx)
		if err != nil {
			return nil, err
		}
		return observer.Tables(ctx, snapshot)
	}, nil
}

// CheckOptions says which options for the diagnostic programs choose an adapter or have patience, and name no file: some of
// theirs read or write any.
func CheckOptions(options string) error {
	words := strings.Fields(options)
	for i := 0; i < len(words); i += 2 {
		switch words[i] {
		case "-C", "--Ca", "-P", "--Port", "-t", "--timeout":
		default:
			return fmt.Errorf("option %q is not among -C ADAPTER, -P PORT and -t MILLISECONDS", words[i])
		}
		if i+1 == len(words) || !wordForm.MatchString(words[i+1]) {
			return fmt.Errorf("option %s is to be followed by a name or a number", words[i])
		}
	}
	return nil
}

var wordForm = pattern.New(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)
