package nfsclient

import "fmt"

// Attributes are what a file is.
type Attributes struct {
	Type         uint32 // 1 a file, 2 a directory, 5 a symbolic link
	Size         uint64
	FSID         [2]uint64
	Inode        uint64
	Mode         uint32
	Owner, Group string // numbers in decimal, or names
}

// Bits of a bitmap4: RFC 7530, section 5.
const (
	bitType  = 1 << 1
	bitSize  = 1 << 4
	bitFSID  = 1 << 8
	bitFile  = 1 << 20
	bitMode  = 1 << 1 // of the second word, as those below
	bitOwner = 1 << 4
	bitGroup = 1 << 5
)

func at(h Handle) Op {
	if h == nil {
		return Op{code: opPutRoot}
	}
	return Op{code: opPutHandle, args: encode(h)}
}

func handleOf(h *Handle) Op {
	return Op{code: opGetHandle, result: func(r *reader) { *h = Handle(r.opaque()) }}
}

func attributesOf(a *Attributes) Op {
	wanted := encode(2, bitType|bitSize|bitFSID|bitFile, bitMode|bitOwner|bitGroup)
	return Op{code: opGetAttr, args: wanted, result: func(r *reader) {
		var has [2]uint32
		for i, n := 0, int(r.word()); i < n && !r.short; i++ {
			if w := r.word(); i < 2 {
				has[i] = w
			}
		}
		v := &reader{text: r.opaque()}
		if has[0]&bitType != 0 {
			a.Type = v.word()
		}
		if has[0]&bitSize != 0 {
			a.Size = v.long()
		}
		if has[0]&bitFSID != 0 {
			a.FSID = [2]uint64{v.long(), v.long()}
		}
		if has[0]&bitFile != 0 {
			a.Inode = v.long()
		}
		if has[1]&bitMode != 0 {
			a.Mode = v.word()
		}
		if has[1]&bitOwner != 0 {
			a.Owner = string(v.opaque())
		}
		if has[1]&bitGroup != 0 {
			a.Group = string(v.opaque())
		}
		r.short = r.short || v.short
	}}
}

// LookUp goes from a directory, nil for the server's root, down by names.
func (c *Client) LookUp(from Handle, names ...string) (h Handle, a Attributes, err error) {
	ops := []Op{at(from)}
	for _, name := range names {
		ops = append(ops, Op{code: opLookUp, args: encode(name)})
	}
	err = c.Compound(append(ops, handleOf(&h), attributesOf(&a))...)
	return h, a, err
}

// Parent goes up from a directory.
func (c *Client) Parent(of Handle) (h Handle, a Attributes, err error) {
	err = c.Compound(at(of), Op{code: opLookUpParent}, handleOf(&h), attributesOf(&a))
	return h, a, err
}

// Attributes asks what a handle stands for.
func (c *Client) Attributes(of Handle) (a Attributes, err error) {
	err = c.Compound(at(of), attributesOf(&a))
	return a, err
}

// Read reads from a file without opening it.
func (c *Client) Read(from Handle, offset uint64, count uint32) (text []byte, err error) {
	err = c.Compound(at(from), Op{code: opRead, args: encode(0, uint64(0), 0, offset, count), result: func(r *reader) {
		r.word()
		text = r.opaque()
	}})
	return text, err
}

// Write writes to a file without opening it.
func (c *Client) Write(to Handle, offset uint64, text []byte) error {
	return c.Compound(at(to), Op{code: opWrite, args: encode(0, uint64(0), 0, offset, 2, text), result: func(r *reader) {
		r.word()
		r.word()
		r.take(8)
	}})
}

// ReadDir names a directory's entries, as many as one answer holds.
func (c *Client) ReadDir(h Handle) (names []string, err error) {
	err = c.Compound(at(h), Op{code: opReadDir, args: encode(uint64(0), uint64(0), 65536, 65536, 1, 0), result: func(r *reader) {
		r.take(8)
		for r.word() == 1 && !r.short {
			r.take(8)
			names = append(names, string(r.opaque()))
			for n := r.word(); n > 0 && !r.short; n-- {
				r.word()
			}
			r.opaque()
		}
		r.word()
	}})
	return names, err
}

// Chmod sets a file's mode.
func (c *Client) Chmod(h Handle, mode uint32) error {
	args := encode(0, uint64(0), 0, 2, 0, bitMode, encode(mode))
	return c.Compound(at(h), Op{code: opSetAttr, args: args, result: bitmap})
}

func bitmap(r *reader) {
	for n := r.word(); n > 0 && !r.short; n-- {
		r.word()
	}
}

// Mkdir makes a directory.
func (c *Client) Mkdir(in Handle, name string) (h Handle, err error) {
	err = c.Compound(at(in), Op{code: opCreate, args: encode(2, name, 2, 0, bitMode, encode(0o755)), result: made}, handleOf(&h))
	return h, err
}

// Symlink makes a symbolic link.
func (c *Client) Symlink(in Handle, name, to string) (h Handle, err error) {
	err = c.Compound(at(in), Op{code: opCreate, args: encode(5, to, name, 0, ""), result: made}, handleOf(&h))
	return h, err
}

func made(r *reader) {
	r.word()
	r.take(16)
	bitmap(r)
}

// Remove removes a name.
func (c *Client) Remove(in Handle, name string) error {
	return c.Compound(at(in), Op{code: opRemove, args: encode(name), result: func(r *reader) { r.word(); r.take(16) }})
}

// State stands for an open file.
type State [16]byte

// introduce makes the client known to the server, once.
func (c *Client) introduce() error {
	if c.id != 0 {
		return nil
	}
	var id, verifier uint64
	name := fmt.Sprintf("nfsclient %s %d", c.conn.LocalAddr(), c.Who.UID)
	err := c.Compound(Op{code: opSetClient, args: encode(uint64(1), name, 0x40000000, "tcp", "0.0.0.0.0.0", 1),
		result: func(r *reader) {
			id, verifier = r.long(), r.long()
		}})
	if err == nil {
		err = c.Compound(Op{code: opConfirm, args: encode(id, verifier)})
	}
	if err == nil {
		c.id = id
	}
	return err
}

// Open opens a file for reading and writing; create makes it, mode 0644, if there is none.
func (c *Client) Open(in Handle, name string, create bool) (h Handle, s State, err error) {
	if err := c.introduce(); err != nil {
		return nil, s, err
	}
	how := encode(0)
	if create {
		how = encode(1, 0, 2, 0, bitMode, encode(0o644))
	}
	var flags uint32
	read := func(r *reader) {
		copy(s[:], r.take(16))
		r.take(20)
		flags = r.word()
		bitmap(r)
		r.word()
	}
	args := encode(c.seq, 3, 0, c.id, fmt.Sprintf("owner %d", c.Who.UID), raw(how), 0, name)
	c.seq++
	if err := c.Compound(at(in), Op{code: opOpen, args: args, result: read}, handleOf(&h)); err != nil {
		return nil, s, err
	}
	if flags&2 != 0 {
		confirm := Op{code: opOpenConfirm, args: encode(raw(s[:]), c.seq), result: func(r *reader) { copy(s[:], r.take(16)) }}
		c.seq++
		err = c.Compound(at(h), confirm)
	}
	return h, s, err
}

// ReadOpen reads from an open file.
func (c *Client) ReadOpen(h Handle, s State, offset uint64, count uint32) (text []byte, err error) {
	err = c.Compound(at(h), Op{code: opRead, args: encode(raw(s[:]), offset, count), result: func(r *reader) {
		r.word()
		text = r.opaque()
	}})
	return text, err
}

// How firmly a write is to be kept before it is answered: RFC 7530, section 16.36.
const (
	unstable = 0
	fileSync = 2
)

// WriteOpen writes to an open file; it is on disk when it returns.
func (c *Client) WriteOpen(h Handle, s State, offset uint64, text []byte) error {
	return c.write(h, s, offset, text, fileSync)
}

// Stream writes to an open file as programs do: it is on disk after Commit.
func (c *Client) Stream(h Handle, s State, offset uint64, text []byte) error {
	return c.write(h, s, offset, text, unstable)
}

func (c *Client) write(h Handle, s State, offset uint64, text []byte, how int) error {
	return c.Compound(at(h), Op{code: opWrite, args: encode(raw(s[:]), offset, how, text), result: func(r *reader) {
		r.word()
		r.word()
		r.take(8)
	}})
}

// Commit returns when all of the file is on disk.
func (c *Client) Commit(h Handle) error {
	return c.Compound(at(h), Op{code: opCommit, args: encode(uint64(0), 0), result: func(r *reader) { r.take(8) }})
}

// CloseFile closes an open file.
func (c *Client) CloseFile(h Handle, s State) error {
	args := encode(c.seq, raw(s[:]))
	c.seq++
	return c.Compound(at(h), Op{code: opClose, args: args, result: func(r *reader) { r.take(16) }})
}
