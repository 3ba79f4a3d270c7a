package opensm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"muster/internal/drivers/fabric/diags"
	"muster/internal/drivers/fabric/opensm/ibsim"
	"muster/internal/fabric"
	"muster/internal/kit/pattern"
)

// trials is what the names of folders begin with in which files are tried.
const trials = "preflight-"

// sweep removes what trials left whose process was killed. No trial takes an hour.
func sweep(scratch string) {
	left, _ := filepath.Glob(filepath.Join(scratch, trials+"*"))
	for _, folder := range left {
		if info, err := os.Stat(folder); err == nil && time.Since(info.ModTime()) > time.Hour {
			_ = os.RemoveAll(folder) // the next trial looks again
		}
	}
}

// preflight has the real opensm carry a file out on a simulated copy of the fabric, and says what came of it: nil where every
// port holds what the intent gives it and nothing else, fabric.ErrRefused where one does not. The fabric itself is not touched.
func preflight(ctx context.Context, scratch string, snapshot, file []byte, i fabric.Intent) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	sweep(scratch)
	folder, err := os.MkdirTemp(scratch, trials+"*")
	if err != nil {
		return fmt.Errorf("%w: the file cannot be tried: %w", fabric.ErrRefused, err)
	}
	defer os.RemoveAll(folder)
	seen, log, err := trial(ctx, folder, snapshot, file, i)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("%w: the file cannot be tried: %w", fabric.ErrRefused, err)
	}
	wanted, wide := i.Tables(), false
	for _, d := range fabric.Compare(i, seen) {
		crowded := len(wanted[d.Port]) > ibsim.TableSize
		wide = wide || crowded
		if len(d.Surplus) > 0 || len(d.Missing) > 0 && !crowded {
			return fmt.Errorf("%w: opensm, tried on a simulated copy of the fabric, would do something else: %s",
				fabric.ErrRefused, d)
		}
	}
	if words := trouble(log); words != "" && !wide {
		return fmt.Errorf("%w: opensm, tried on a simulated copy of the fabric, said: %s", fabric.ErrRefused, words)
	}
	return nil
}

// trial runs opensm once, and reads what all adapters' ports hold then, and what it logged.
func trial(ctx context.Context, folder string, snapshot, file []byte, i fabric.Intent) (fabric.Tables, string, error) {
	places, err := diags.Places(snapshot)
	if err != nil {
		return nil, "", err
	}
	var node string
	var from fabric.GUID
	for _, m := range i.Managers {
		if at, there := places[m]; there {
			node, from = at.Node, m
			break
		}
	}
	if node == "" {
		return nil, "", fmt.Errorf("none of the managers %v is on the fabric", i.Managers)
	}
	partitions, log, options := filepath.Join(folder, "partitions.conf"), filepath.Join(folder, "log"),
		filepath.Join(folder, "opensm.conf")
	for path, content := range map[string][]byte{partitions: file, options: nil} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return nil, "", err
		}
	}
	simulator, err := ibsim.Start(folder, snapshot)
	if err != nil {
		return nil, "", err
	}
	defer simulator.Stop()
	if _, err := simulator.Run(ctx, node, "opensm", "-o", "-g", from.String(), "-F", options, "-f", log, "-P",
		partitions); err != nil {
		return nil, "", err
	}
	said, err := os.ReadFile(log)
	if err != nil {
		return nil, "", err
	}
	lids, err := os.ReadFile(filepath.Join(folder, "guid2lid"))
	if err != nil {
		return nil, "", err
	}
	seen, err := readSimulated(simulator, node, lids, places)
	return seen, string(said), err
}

var lidLine = pattern.New(`(?m)^(0x[0-9a-f]{16}) 0x([0-9a-f]{1,4}) 0x[0-9a-f]{1,4}$`)

// readSimulated reads all adapters' ports of a simulated fabric; lids is opensm's file guid2lid. A port that does not answer,
// or that is another than was asked for, is an error: here nothing is ever down.
func readSimulated(s *ibsim.Simulator, node string, lids []byte, places map[fabric.GUID]diags.Place) (fabric.Tables, error) {
	client, err := s.Connect(node)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	seen := fabric.Tables{}
	for _, m := range lidLine.Regexp().FindAllSubmatch(lids, -1) {
		lid, err := strconv.ParseUint(string(m[2]), 16, 16)
		if err != nil {
			return nil, fmt.Errorf("guid2lid: %w", err)
		}
		port, err := fabric.ParseGUID(string(m[1]))
		if err != nil {
			return nil, fmt.Errorf("guid2lid: %w", err)
		}
		if _, adapter := places[port]; !adapter {
			continue
		}
		who, table, err := client.Port(uint16(lid))
		if err != nil {
			return nil, fmt.Errorf("port %s: %w", port, err)
		}
		if who != port {
			return nil, fmt.Errorf("port %s answered in place of %s", who, port)
		}
		slices.Sort(table.Entries)
		seen[port] = table
	}
	for port := range places {
		if _, read := seen[port]; !read {
			return nil, fmt.Errorf("opensm gave port %s no local identifier", port)
		}
	}
	return seen, nil
}
