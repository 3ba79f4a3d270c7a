// The agent's stand-in: it settles on the guest's network as the agent does, and tells a listener at its gateway what it
// finds itself in. Then it does what the listener orders, as a tenant who is root could.
//
// Where there is no agent's boot file it is the first process of all, and tells it to the console.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"muster/internal/protocol"
)

func main() {
	if _, err := os.Stat(protocol.BootFilePath); os.IsNotExist(err) {
		fmt.Println("LOOKER", tellConsole())
		select {}
	}
	for {
		if err := tell(); err != nil {
			fmt.Println("LOOKER", err)
		}
		time.Sleep(time.Second)
	}
}

func tellConsole() error {
	if err := errors.Join(os.MkdirAll("/sys", 0o755), unix.Mount("sysfs", "/sys", "sysfs", 0, "")); err != nil {
		return err
	}
	text, err := json.Marshal(look())
	fmt.Printf("SAW %s\n", text)
	return err
}

func tell() error {
	var boot protocol.BootFile
	text, err := os.ReadFile(protocol.BootFilePath)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &boot); err != nil {
		return err
	}
	at := boot.Attachment
	if err := settle(*at); err != nil {
		return err
	}
	connection, err := net.DialTimeout("tcp", net.JoinHostPort(at.Gateway.Address, fmt.Sprint(protocol.AgentPort)), 5*time.Second)
	if err != nil {
		return err
	}
	defer connection.Close()
	see := look()
	see["token"] = boot.Token
	if err := json.NewEncoder(connection).Encode(see); err != nil {
		return err
	}
	var order struct {
		Send [][]byte // frames, in this order
		Dial []string // addresses for TCP
	}
	if err := json.NewDecoder(connection).Decode(&order); err != nil {
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
	var done struct{ Failed, Open []string }
	done.Failed = send(order.Send)
	done.Open = dial(order.Dial)
	return json.NewEncoder(connection).Encode(done)
}

// look reads what the guest is.
func look() map[string]string {
	see := map[string]string{}
	for _, pattern := range []string{
		"/sys/devices/system/node/node*/cpulist", "/sys/devices/system/node/node*/distance", "/sys/devices/system/cpu/online",
		"/sys/devices/system/cpu/cpu*/topology/thread_siblings_list", "/sys/devices/system/cpu/cpu*/topology/physical_package_id",
		"/sys/class/net/eth0/address", "/sys/block/vd*/serial", "/sys/block/vd*/ro", "/proc/cmdline", "/proc/1/cmdline",
		"/proc/interrupts",
		"/proc/irq/*/smp_affinity_list",
	} {
		found, _ := filepath.Glob(pattern)
		for _, path := range found {
			text, _ := os.ReadFile(path)
			see[path] = strings.TrimSpace(string(text))
		}
	}
	usb, _ := os.ReadDir("/sys/bus/usb/devices")
	queues, _ := filepath.Glob("/sys/class/net/eth0/queues/tx-*")
	_, plan := os.Stat(protocol.GuestPlan)
	see["usb"], see["queues"], see["plan gone"] = fmt.Sprint(len(usb)), fmt.Sprint(len(queues)), fmt.Sprint(os.IsNotExist(plan))
	return see
}

func settle(at protocol.Attachment) error {
	nic, err := netlink.LinkByName("eth0")
	if err != nil {
		return err
	}
	address, err := netlink.ParseAddr(at.Address)
	if err != nil {
		return err
	}
	mac, err := net.ParseMAC(at.Gateway.MAC)
	if err != nil {
		return err
	}
	gateway := net.ParseIP(at.Gateway.Address).To4()
	for _, do := range []func() error{
		func() error { return netlink.LinkSetARPOff(nic) },
		func() error { return netlink.AddrReplace(nic, address) },
		func() error { return netlink.LinkSetUp(nic) },
		func() error {
			return netlink.NeighSet(&netlink.Neigh{LinkIndex: nic.Attrs().Index, Family: unix.AF_INET, State: unix.NUD_PERMANENT,
				IP: gateway, HardwareAddr: mac})
		},
		// As the agent does not: whatever the gateway would pass on.
		func() error { return netlink.RouteReplace(&netlink.Route{LinkIndex: nic.Attrs().Index, Gw: gateway}) },
	} {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

// send sends frames as they are, through one queue, so that they arrive in their order.
func send(frames [][]byte) (failed []string) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	fail := func(err error) { failed = append(failed, err.Error()) }
	var first unix.CPUSet
	first.Set(0)
	nic, err := netlink.LinkByName("eth0")
	if err := errors.Join(err, unix.SchedSetaffinity(0, &first)); err != nil {
		return []string{err.Error()}
	}
	if err := netlink.LinkSetMTU(nic, 9000); err != nil {
		fail(err)
	}
	const all = unix.ETH_P_ALL&0xff<<8 | unix.ETH_P_ALL>>8 // in the network's order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, all)
	if err != nil {
		return []string{err.Error()}
	}
	defer unix.Close(fd)
	for i, frame := range frames {
		if err := unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: nic.Attrs().Index}); err != nil {
			fail(fmt.Errorf("frame %d: %w", i, err))
		}
	}
	return failed
}

// dial finds out which addresses somebody listens at.
func dial(addresses []string) (open []string) {
	var lock sync.Mutex
	var all sync.WaitGroup
	most := make(chan struct{}, 64)
	for _, address := range addresses {
		most <- struct{}{}
		all.Go(func() {
			defer func() { <-most }()
			connection, err := net.DialTimeout("tcp", address, 5*time.Second)
			if err != nil {
				return
			}
			connection.Close()
			lock.Lock()
			defer lock.Unlock()
			open = append(open, address)
		})
	}
	all.Wait()
	return open
}
