// The agent's stand-in in a guest that shows that its network goes where it goes: over one connection to its gateway, which it
// opens once, it counts, under a number that it has drawn at its start.
package main

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"muster/internal/protocol"
)

func main() {
	err := call()
	fmt.Println("CALLER", err)
	select {}
}

func call() error {
	var boot protocol.BootFile
	text, err := os.ReadFile(protocol.BootFilePath)
	if err == nil {
		err = json.Unmarshal(text, &boot)
	}
	if err != nil {
		return err
	}
	at := boot.Attachment
	if at == nil {
		return errors.New("no attachment")
	}
	if err := settle(*at); err != nil {
		return err
	}
	c, err := net.DialTimeout("tcp", net.JoinHostPort(at.Gateway.Address, fmt.Sprint(protocol.AgentPort)), time.Minute)
	if err != nil {
		return err
	}
	var number [8]byte
	_, _ = rand.Read(number[:]) // it never fails
	for count := 1; ; count++ {
		if _, err := fmt.Fprintf(c, "COUNT %x %d\n", number, count); err != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// settle makes the guest's one NIC speak on its cluster's network, where ARP is not used.
func settle(at protocol.Attachment) error {
	nic, err := netlink.LinkByName("eth0")
	if err != nil {
		return err
	}
	address, err1 := netlink.ParseAddr(at.Address)
	mac, err2 := net.ParseMAC(at.Gateway.MAC)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	return errors.Join(
		netlink.LinkSetARPOff(nic), netlink.AddrReplace(nic, address), netlink.LinkSetUp(nic),
		netlink.NeighSet(&netlink.Neigh{LinkIndex: nic.Attrs().Index, Family: unix.AF_INET, State: unix.NUD_PERMANENT,
			IP: net.ParseIP(at.Gateway.Address).To4(), HardwareAddr: mac}),
	)
}
