// Package fabric says what isolation on an InfiniBand fabric means: which ports are in which partitions, and what was read
// from their tables. Drivers live below it and pass one contract test, fabrictest.
//
// What enters: the intent for a whole fabric, computed from what is allocated. What leaves: the tables as the ports hold
// them, and how they differ from the intent. No driver knows clusters, rows or users.
package fabric

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// GUID names a port for life (InfiniBand Architecture Specification, volume 1, 4.1.1). Zero is no port.
type GUID uint64

// ParseGUID reads the spellings that are in use: 0x0002c903000a0b0c, 0002c903000a0b0c, 0002:c903:000a:0b0c and
// 00:02:c9:03:00:0a:0b:0c. Zero and all ones are refused: no port has them.
func ParseGUID(text string) (GUID, error) {
	digits := strings.TrimPrefix(text, "0x")
	if parts := strings.Split(text, ":"); len(parts) == 4 || len(parts) == 8 {
		for _, p := range parts {
			if len(p) != 16/len(parts) {
				return 0, badGUID(text)
			}
		}
		digits = strings.Join(parts, "")
	}
	n, err := strconv.ParseUint(digits, 16, 64)
	if err != nil || GUID(n).check() != nil || len(digits) != 16 && digits == text {
		return 0, badGUID(text)
	}
	return GUID(n), nil
}

// check says why no port can have this GUID.
func (g GUID) check() error {
	if g == 0 || g == 1<<64-1 {
		return badGUID(g.String())
	}
	return nil
}

func badGUID(text string) error {
	return fmt.Errorf("%q is no port's GUID; one looks like 0x0002c903000a0b0c", text)
}

func (g GUID) String() string { return fmt.Sprintf("0x%016x", uint64(g)) }

// MarshalText makes GUIDs text in JSON and YAML, where numbers of 64 bits lose digits.
func (g GUID) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// UnmarshalText reads what ParseGUID reads.
func (g *GUID) UnmarshalText(text []byte) (err error) {
	*g, err = ParseGUID(string(text))
	return err
}

// Key is a partition's number, the low 15 bits of an entry. Partitions are FirstKey to LastKey; zero is none, and above them
// is the default partition, which belongs to the subnet managers.
type Key uint16

const (
	FirstKey   Key = 0x0001
	LastKey    Key = 0x7ffe
	DefaultKey Key = 0x7fff
)

func (k Key) String() string { return fmt.Sprintf("0x%04x", uint16(k)) }

// MarshalText writes it as people do, in hexadecimal.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (k *Key) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(strings.TrimPrefix(string(text), "0x"), 16, 15)
	if err != nil {
		return fmt.Errorf("%q is no partition's key; one looks like 0x0123", text)
	}
	*k = Key(n)
	return nil
}

// Membership is how a port is in a partition. Two limited members do not hear each other.
type Membership int

const (
	Limited Membership = iota
	Full
)

// Entry is one of a port's P_Key table (volume 1, 10.9.1.1): a key, and the top bit for full members.
type Entry uint16

// In is the entry of a member.
func (k Key) In(m Membership) Entry {
	if m == Full {
		return Entry(k) | 0x8000
	}
	return Entry(k)
}

// Key is the entry's partition.
func (e Entry) Key() Key { return Key(e & 0x7fff) }

// Membership is how the entry is in its partition.
func (e Entry) Membership() Membership {
	if e&0x8000 != 0 {
		return Full
	}
	return Limited
}

func (e Entry) String() string { return fmt.Sprintf("0x%04x", uint16(e)) }

// MarshalText writes it as people do, in hexadecimal.
func (e Entry) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (e *Entry) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(strings.TrimPrefix(string(text), "0x"), 16, 16)
	if err != nil {
		return fmt.Errorf("%q is no entry of a partition table; one looks like 0x8123", text)
	}
	*e = Entry(n)
	return nil
}

// Partition is one tenant's, or one of the site's own.
type Partition struct {
	Key     Key
	Members map[GUID]Membership
}

// Intent is what a whole fabric is to be: a port is in these partitions and in no other. Every port is a limited member of
// the default partition besides, and the managers are full ones.
type Intent struct {
	Partitions []Partition // by key, each once
	Managers   []GUID      // ports of the subnet managers
}

// Port is what was read from one port.
type Port struct {
	Entries  []Entry // that are not empty, in the order of their slots
	Capacity int     // slots of the table; 0: not known
}

// Tables is what was read from the ports that answered.
type Tables map[GUID]Port

// Difference is how a port's table differs from the intent.
type Difference struct {
	Port    GUID
	Surplus []Entry // it holds, and must not: somebody may hear what is not for him
	Missing []Entry // it should hold
	Silent  bool    // it did not answer, so that nothing is known of it
}

func (d Difference) String() string {
	var parts []string
	if d.Silent {
		parts = append(parts, "did not answer")
	}
	if len(d.Surplus) > 0 {
		parts = append(parts, "holds "+Words(d.Surplus)+", which is not meant for it")
	}
	if len(d.Missing) > 0 {
		parts = append(parts, "lacks "+Words(d.Missing))
	}
	return fmt.Sprintf("port %s %s", d.Port, strings.Join(parts, " and "))
}

// Words are entries in a sentence.
func Words(entries []Entry) string {
	words := make([]string, len(entries))
	for i, e := range entries {
		words[i] = e.String()
	}
	return strings.Join(words, ", ")
}

// Driver tells a fabric's subnet manager. All methods may be called again after any crash, by any replica that reaches the
// manager; they block until done or until ctx ends.
type Driver interface {
	// Apply makes the intent the fabric's, and reads all ports back. Nothing changed where it returns ErrRefused; where it
	// returns ErrResisted the managers hold the intent, and single ports differ from it; after any other error what holds is
	// unknown, and is to be observed. Whatever it returns, no port that obeys its manager ever held a key that neither this
	// intent nor the one before gives it.
	Apply(ctx context.Context, i Intent) error
	// Observe reads every port's table from the port itself, and changes none. Ports that do not answer are not in it. What a
	// driver told a manager, and somebody else changed there, it may put back.
	Observe(ctx context.Context) (Tables, error)
}

// ErrRefused is returned for an intent that was not carried out, and the fabric is as it was. The error's text says why.
var ErrRefused = errors.New("the fabric's partitions were left as they are")

// ErrResisted is returned where the managers took an intent and single ports do not hold it. The error is a *Resisted.
var ErrResisted = errors.New("ports differ from what their manager was told")

// Resisted says which ports differ.
type Resisted struct{ Ports []Difference }

func (r *Resisted) Error() string {
	if len(r.Ports) == 1 {
		return r.Ports[0].String()
	}
	return fmt.Sprintf("%d ports differ from what their manager was told, the first: %s", len(r.Ports), r.Ports[0])
}

// Unwrap makes it ErrResisted.
func (r *Resisted) Unwrap() error { return ErrResisted }
