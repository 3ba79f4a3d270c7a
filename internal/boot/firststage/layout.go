package firststage

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strings"
	"unicode/utf16"
)

// A disk with a root has a GUID partition table (UEFI specification 2.10, section 5.3) of three partitions. In the order of
// their place: the label, which is written last and read first; the image as it is; and the filesystem of what the node writes.
const (
	labelPart = 3
	rootPart  = 1
	statePart = 2
)

const (
	mib        = 1 << 20
	labelStart = 1 * mib // byte on the disk
	rootStart  = 2 * mib
	stateLeast = 1 << 30 // bytes that a node must be able to write
)

// label names the owner and the image of the root that is on a disk.
type label struct {
	Keep   string `json:"keep"`
	Digest string `json:"digest"`
	Size   int64  `json:"size"` // of the image, bytes
}

// labelMagic begins a label; its JSON follows, in a block that ends with zeros. The block's hash stands before it.
const (
	labelMagic = "muster root disk\n"
	labelBlock = 4096 // bytes, a whole number of sectors on every disk
)

// room is how large a disk has to be.
func (l label) room() int64 { return l.stateStart() + stateLeast + mib }

// stateStart is the first byte behind the image, in whole MiB.
func (l label) stateStart() int64 { return rootStart + (l.Size+mib-1)/mib*mib }

func (l label) encode() ([]byte, error) {
	text, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	block := make([]byte, labelBlock)
	if n := copy(block, labelMagic+hex.EncodeToString(sum[:])+"\n"+string(text)); n == len(block) {
		return nil, errors.New("the disk's label is too long")
	}
	return block, nil
}

var errNoLabel = errors.New("the disk has no label of a root")

func decodeLabel(block []byte) (label, error) {
	rest, found := strings.CutPrefix(strings.TrimRight(string(block), "\x00"), labelMagic)
	sum, text, ok := strings.Cut(rest, "\n")
	if !found || !ok {
		return label{}, errNoLabel
	}
	if want := sha256.Sum256([]byte(text)); hex.EncodeToString(want[:]) != sum {
		return label{}, errNoLabel
	}
	var l label
	if err := json.Unmarshal([]byte(text), &l); err != nil || l.Size <= 0 || l.Size > rootLimit {
		return label{}, errNoLabel
	}
	return l, nil
}

func readLabel(d disk) (label, error) {
	f, err := os.Open(d.device())
	if err != nil {
		return label{}, err
	}
	defer f.Close()
	block := make([]byte, labelBlock)
	if _, err := io.ReadFull(io.NewSectionReader(f, labelStart, labelBlock), block); err != nil {
		return label{}, err
	}
	return decodeLabel(block)
}

// piece is bytes at a place of a disk.
type piece struct {
	at    int64
	bytes []byte
}

// table is the partition table for a label on a disk: at the start of the disk and, once more, at its end.
func table(d disk, l label) []piece {
	const entries, entrySize = 128, 128
	last := d.bytes/d.sector - 1
	array := make([]byte, (entries*entrySize+int(d.sector)-1)/int(d.sector)*int(d.sector))
	arraySectors := int64(len(array)) / d.sector
	firstUsable, lastUsable := 2+arraySectors, last-arraySectors-1
	stateEnd := (lastUsable+1)*d.sector/mib*mib - 1

	put := func(number int, kind, name string, first, end int64) {
		e := array[(number-1)*entrySize:][:entrySize]
		copy(e, guid(kind))
		copy(e[16:], l.guid(name))
		binary.LittleEndian.PutUint64(e[32:], uint64(first/d.sector))
		binary.LittleEndian.PutUint64(e[40:], uint64(end/d.sector))
		for i, c := range utf16.Encode([]rune(name)) {
			binary.LittleEndian.PutUint16(e[56+2*i:], c)
		}
	}
	const linux = "0fc63daf-8483-4772-8e79-3d69d8477de4"
	put(rootPart, linux, "muster-root", rootStart, l.stateStart()-1)
	put(statePart, linux, "muster-state", l.stateStart(), stateEnd)
	put(labelPart, linux, "muster-label", labelStart, rootStart-1)

	header := func(here, other, arrayAt int64) []byte {
		h := make([]byte, d.sector)
		copy(h, "EFI PART\x00\x00\x01\x00\x5c\x00\x00\x00")
		binary.LittleEndian.PutUint64(h[24:], uint64(here))
		binary.LittleEndian.PutUint64(h[32:], uint64(other))
		binary.LittleEndian.PutUint64(h[40:], uint64(firstUsable))
		binary.LittleEndian.PutUint64(h[48:], uint64(lastUsable))
		copy(h[56:], l.guid("disk"))
		binary.LittleEndian.PutUint64(h[72:], uint64(arrayAt))
		binary.LittleEndian.PutUint32(h[80:], entries)
		binary.LittleEndian.PutUint32(h[84:], entrySize)
		binary.LittleEndian.PutUint32(h[88:], crc32.ChecksumIEEE(array[:entries*entrySize]))
		binary.LittleEndian.PutUint32(h[16:], crc32.ChecksumIEEE(h[:92]))
		return h
	}
	return []piece{
		{0, append(append(protective(d, last), header(1, last, 2)...), array...)},
		{(last - arraySectors) * d.sector, append(bytes.Clone(array), header(last, 1, last-arraySectors)...)},
	}
}

// protective is the sector that keeps programs which know no GPT away: one partition over the whole disk.
func protective(d disk, last int64) []byte {
	s := make([]byte, d.sector)
	entry := s[446:]
	copy(entry, []byte{0x00, 0x00, 0x02, 0x00, 0xee, 0xff, 0xff, 0xff, 0x01})
	binary.LittleEndian.PutUint32(entry[12:], uint32(min(last, 0xffffffff)))
	s[510], s[511] = 0x55, 0xaa
	return s
}

// guid derives a partition's GUID: the same for the same root.
func (l label) guid(name string) []byte {
	sum := sha256.Sum256([]byte(l.Keep + "\x00" + l.Digest + "\x00" + name))
	g := sum[:16]
	g[7], g[8] = g[7]&0x0f|0x80, g[8]&0x3f|0x80 // RFC 9562, version 8, in a GPT's byte order
	return g
}

// guid is the mixed byte order of a GPT: the first three groups are little-endian.
func guid(text string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	if err != nil || len(b) != 16 {
		panic(fmt.Sprintf("%q is no GUID", text))
	}
	b[0], b[1], b[2], b[3] = b[3], b[2], b[1], b[0]
	b[4], b[5] = b[5], b[4]
	b[6], b[7] = b[7], b[6]
	return b
}
