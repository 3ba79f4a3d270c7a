package opensm

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"muster/internal/fabric"
	"muster/internal/kit/pattern"
)

// The file's format is opensm(8)'s, PARTITION CONFIGURATION. Of what opensm reads only the narrowest form is written: one
// member a line, so that no line comes near the 4094 bytes at which its parser gives up; names of our own; all keys below
// 0x7fff; every membership spelled. Two lines of head say whose it is, and prove that it is whole.
const (
	fileHead = "# Written by Muster, which puts back what others change here.\n# sha256 "
	sumSize  = 2 * sha256.Size
	// longestLine is what no line of ours reaches.
	longestLine = 80
)

var (
	errForeign = errors.New("it was not written by Muster")
	errDamaged = errors.New("it is not as Muster wrote it")
)

var memberLine = pattern.New(`^(?:Default=0x7fff|p([0-9a-f]{4})=0x([0-9a-f]{4})),ipoib : (ALL|0x[0-9a-f]{16})=(full|limited) ;$`)

// Render is the file that makes an intent so. Partitions without members are not in it.
func Render(i fabric.Intent) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "Default=0x7fff,ipoib : ALL=limited ;\n")
	managers := slices.Compact(slices.Sorted(slices.Values(i.Managers)))
	for _, m := range managers {
		fmt.Fprintf(&b, "Default=0x7fff,ipoib : %s=full ;\n", m)
	}
	partitions := slices.SortedFunc(slices.Values(i.Partitions), func(a, b fabric.Partition) int {
		return int(a.Key) - int(b.Key)
	})
	for _, p := range partitions {
		for _, port := range slices.Sorted(maps.Keys(p.Members)) {
			fmt.Fprintf(&b, "p%04x=%s,ipoib : %s=%s ;\n", uint16(p.Key), p.Key, port, membershipWord[p.Members[port]])
		}
	}
	sum := sha256.Sum256([]byte(b.String()))
	return []byte(fileHead + hex.EncodeToString(sum[:]) + "\n" + b.String())
}

var membershipWord = map[fabric.Membership]string{fabric.Full: "full", fabric.Limited: "limited"}

// Parse reads a file back that Render wrote. It refuses every other, whole or not.
func Parse(file []byte) (fabric.Intent, error) {
	none := fabric.Intent{}
	rest, ours := bytes.CutPrefix(file, []byte(fileHead))
	if !ours {
		return none, errForeign
	}
	if len(rest) < sumSize+1 || rest[sumSize] != '\n' {
		return none, errDamaged
	}
	sum := sha256.Sum256(rest[sumSize+1:])
	if hex.EncodeToString(sum[:]) != string(rest[:sumSize]) {
		return none, errDamaged
	}
	text, ended := strings.CutSuffix(string(rest[sumSize+1:]), "\n")
	if !ended {
		return none, errDamaged
	}
	return parseLines(strings.Split(text, "\n"))
}

func parseLines(lines []string) (fabric.Intent, error) {
	var i fabric.Intent
	members := map[fabric.Key]map[fabric.GUID]fabric.Membership{}
	for n, line := range lines {
		m := memberLine.FindStringSubmatch(line)
		if m == nil || len(line) >= longestLine || m[1] != m[2] || (n == 0) != (m[3] == "ALL") {
			return fabric.Intent{}, fmt.Errorf("line %d, %q, is none of Muster's", n+3, line)
		}
		if n == 0 {
			if line != "Default=0x7fff,ipoib : ALL=limited ;" {
				return fabric.Intent{}, fmt.Errorf("line %d, %q, does not make all ports limited members", n+3, line)
			}
			continue
		}
		port, err := fabric.ParseGUID(m[3])
		if err != nil {
			return fabric.Intent{}, fmt.Errorf("line %d: %w", n+3, err)
		}
		if m[1] == "" {
			i.Managers = append(i.Managers, port)
			continue
		}
		number, err := strconv.ParseUint(m[1], 16, 16)
		if err != nil {
			return fabric.Intent{}, fmt.Errorf("line %d: %w", n+3, err)
		}
		key := fabric.Key(number)
		if members[key] == nil {
			members[key] = map[fabric.GUID]fabric.Membership{}
		}
		if _, twice := members[key][port]; twice {
			return fabric.Intent{}, fmt.Errorf("line %d: port %s is in partition %s twice", n+3, port, key)
		}
		members[key][port] = fabric.Limited
		if m[4] == "full" {
			members[key][port] = fabric.Full
		}
	}
	for _, key := range slices.Sorted(maps.Keys(members)) {
		i.Partitions = append(i.Partitions, fabric.Partition{Key: key, Members: members[key]})
	}
	return i, i.Check()
}

// write renders an intent, and makes sure that what was rendered says the same when it is read again.
func write(i fabric.Intent) ([]byte, error) {
	if err := i.Check(); err != nil {
		return nil, err
	}
	file := Render(i)
	again, err := Parse(file)
	if err != nil {
		return nil, fmt.Errorf("%w: the file that was made of them cannot be read again: %w", fabric.ErrRefused, err)
	}
	if !maps.EqualFunc(i.Tables(), again.Tables(), slices.Equal) {
		return nil, fmt.Errorf("%w: the file that was made of them says something else", fabric.ErrRefused)
	}
	return file, nil
}
