package ibsim

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"muster/internal/fabric"
)

// The simulator's own words: a control socket with messages of 80 bytes in the host's order of bytes, and one for each client
// with packets of 288: a head of 32 bytes, and a management datagram.
const (
	magic       = 0xdeadbeef
	controlSize = 80
	connect     = 1
	disconnect  = 2
	packetSize  = 288
	datagram    = 32 // where it begins in a packet
	answering   = 5 * time.Second
	// transactions are the bits of a transaction's number that come back; the simulator puts a program's own into the others.
	transactions = 1<<48 - 1
)

// Subnet management packets (InfiniBand Architecture Specification, volume 1, 14.2).
const (
	get, set, answered = 0x01, 0x02, 0x81
	nodeInfo           = 0x0011
	keyTable           = 0x0016
	payload            = 64 // where it begins in a datagram
	BlockSize          = 32 // entries of a table that one packet carries
)

// ErrSilent is returned where no port answers at a local identifier.
var ErrSilent = errors.New("no port answers there")

// Client is a program of ours on one node of the fabric. It is used by one goroutine at a time.
type Client struct {
	control, packets *net.UnixConn
	there            *net.UnixAddr // the simulator's socket for this client
	id               uint32
	transaction      uint64 // begins anywhere: the simulator tells a port's programs apart by nothing else
	// Patience is how long an answer may take; a port that is not there is silent for that long.
	Patience time.Duration
}

// Connect puts a client on a node. At most ten programs are connected at once, others' too.
func (s *Simulator) Connect(node string) (*Client, error) {
	var number [12]byte
	rand.Read(number[:])
	me := binary.NativeEndian.Uint32(number[:]) >> 1
	c := &Client{Patience: answering, transaction: binary.NativeEndian.Uint64(number[4:]) & transactions >> 1}
	err := func() (err error) {
		if c.control, err = net.DialUnix("unixgram", s.socket(fmt.Sprintf("ctl%d", me)), s.socket("ctl")); err != nil {
			return err
		}
		if c.packets, err = net.ListenUnixgram("unixgram", s.socket(fmt.Sprintf("in%d", me))); err != nil {
			return err
		}
		return c.introduce(me, node)
	}()
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("node %s of the simulator: %w", node, err)
	}
	c.there = s.socket(fmt.Sprintf("out%d", c.id))
	return c, nil
}

// socket is the address of one; the zero at its end belongs to the name.
func (s *Simulator) socket(name string) *net.UnixAddr {
	return &net.UnixAddr{Name: "@" + s.name + ":" + name + "\x00", Net: "unixgram"}
}

// introduce says which node the client is on, and learns its number.
func (c *Client) introduce(me uint32, node string) error {
	message := make([]byte, controlSize)
	order := binary.NativeEndian
	order.PutUint32(message[0:], magic)
	order.PutUint32(message[8:], connect)
	order.PutUint32(message[12:], 44)
	order.PutUint32(message[16:], me)
	copy(message[28:59], node)
	if err := c.control.SetDeadline(time.Now().Add(starting)); err != nil {
		return err
	}
	if _, err := c.control.Write(message); err != nil {
		return err
	}
	if n, err := c.control.Read(message); err != nil || n != controlSize {
		return fmt.Errorf("its answer has %d bytes: %w", n, err)
	}
	if order.Uint32(message[8:]) != connect {
		return errors.New("it refused the client: the node is not there, or ten programs are connected")
	}
	c.id = order.Uint32(message[16:])
	return nil
}

// Close takes the client from its node.
func (c *Client) Close() {
	if c.control != nil {
		message := make([]byte, controlSize)
		binary.NativeEndian.PutUint32(message[0:], magic)
		binary.NativeEndian.PutUint32(message[4:], c.id)
		binary.NativeEndian.PutUint32(message[8:], disconnect)
		_, _ = c.control.Write(message) // one that is gone needs no telling
		c.control.Close()
	}
	if c.packets != nil {
		c.packets.Close()
	}
}

// ask sends one packet by local identifier, and returns the answer's payload of 64 bytes.
func (c *Client) ask(lid uint16, method byte, attribute uint16, modifier uint32, content []byte) ([]byte, error) {
	c.transaction++
	packet := make([]byte, packetSize)
	order := binary.BigEndian
	order.PutUint16(packet[0:], lid)
	order.PutUint64(packet[24:], packetSize-datagram)
	mad := packet[datagram:]
	mad[0], mad[1], mad[2], mad[3] = 1, 1, 1, method
	order.PutUint64(mad[8:], c.transaction)
	order.PutUint16(mad[16:], attribute)
	order.PutUint32(mad[20:], modifier)
	copy(mad[payload:payload+64], content)
	if _, err := c.packets.WriteToUnix(packet, c.there); err != nil {
		return nil, fmt.Errorf("the simulator: %w", err)
	}
	for end := time.Now().Add(c.Patience); ; {
		if err := c.packets.SetReadDeadline(end); err != nil {
			return nil, err
		}
		n, err := c.packets.Read(packet)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, ErrSilent
		case err != nil:
			return nil, fmt.Errorf("the simulator: %w", err)
		case n == packetSize && order.Uint32(packet[16:]) != 0 && order.Uint64(mad[8:])&transactions == c.transaction:
			return nil, ErrSilent // the simulator gives back what it could not deliver
		case n != packetSize || mad[3] != answered || order.Uint64(mad[8:])&transactions != c.transaction:
			continue // a late answer, or a packet for the manager of this node
		}
		if status := order.Uint16(mad[4:]); status != 0 {
			return nil, fmt.Errorf("the port at %d answered with status 0x%x", lid, status)
		}
		return mad[payload : payload+64], nil
	}
}

// Port reads the table of the port at a local identifier, and whose it is.
func (c *Client) Port(lid uint16) (fabric.GUID, fabric.Port, error) {
	info, err := c.ask(lid, get, nodeInfo, 0, nil)
	if err != nil {
		return 0, fabric.Port{}, err
	}
	guid := fabric.GUID(binary.BigEndian.Uint64(info[20:]))
	p := fabric.Port{Capacity: int(binary.BigEndian.Uint16(info[28:]))}
	for block := range (p.Capacity + BlockSize - 1) / BlockSize {
		slots, err := c.Block(lid, block)
		if err != nil {
			return 0, fabric.Port{}, err
		}
		for _, e := range slots {
			if e.Key() != 0 {
				p.Entries = append(p.Entries, e)
			}
		}
	}
	return guid, p, nil
}

// Block reads one block of a port's table, empty slots and all.
func (c *Client) Block(lid uint16, block int) ([]fabric.Entry, error) {
	content, err := c.ask(lid, get, keyTable, uint32(block), nil)
	if err != nil {
		return nil, err
	}
	slots := make([]fabric.Entry, BlockSize)
	for i := range slots {
		slots[i] = fabric.Entry(binary.BigEndian.Uint16(content[2*i:]))
	}
	return slots, nil
}

// SetBlock writes one block of a port's table, as anybody can who is root on a host whose fabric has no M_Key.
func (c *Client) SetBlock(lid uint16, block int, slots []fabric.Entry) error {
	content := make([]byte, 2*BlockSize)
	for i, e := range slots {
		binary.BigEndian.PutUint16(content[2*i:], uint16(e))
	}
	_, err := c.ask(lid, set, keyTable, uint32(block), content)
	return err
}
