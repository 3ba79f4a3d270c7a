package rackd

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"
	"golang.org/x/sys/unix"

	"muster/internal/kit/netns"
	"muster/internal/kit/testall"
	"muster/internal/rack"
)

func TestMachinesAreSwitchedByRealClients(t *testing.T) {
	l := newLab(t, small(3))
	for _, name := range []string{"rack-1", "rack-2", "rack-3"} {
		l.is(name, "off")
	}
	t.Run("Wake-on-LAN", func(t *testing.T) {
		l := l.in(t)
		l.says("", "etherwake", "-i", rack.Bridge, "52:54:00:00:09:00") // no machine's
		l.says("", "etherwake", "-i", rack.Bridge, "52:54:00:00:02:00") // of one with a BMC
		l.says("", "etherwake", "-i", rack.Bridge, "52:54:00:00:01:00")
		l.eventually("rack-1 wakes", func() bool { return l.look("rack-1").State == "on" })
		l.is("rack-1", "on")
		l.is("rack-2", "off")
		l.do("rack-1", rack.Off)
		l.is("rack-1", "off")
		err := netns.Do(l.Netns(), func() error {
			conn, err := net.Dial("udp4", "10.78.255.255:9")
			if err != nil {
				return err
			}
			defer conn.Close()
			_, err = conn.Write(call(net.HardwareAddr{0x52, 0x54, 0, 0, 1, 0}))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		l.eventually("rack-1 wakes by UDP", func() bool { return l.look("rack-1").State == "on" })
	})
	t.Run("ipmitool", func(t *testing.T) {
		l := l.in(t)
		secret := l.file("password", l.password())
		tool := func(suite string, words ...string) []string {
			return append([]string{"ipmitool", "-I", "lanplus", "-N", "10", "-R", "10", "-C", suite, "-H", "10.79.0.2", "-U",
				"operator", "-f", secret}, words...)
		}
		l.says("Power is off", tool("3", "power", "status")...)
		if out, err := l.run(tool("17", "power", "cycle")...); err == nil {
			t.Errorf("a machine that is off was cycled: %s", out)
		}
		l.says("Set Boot Device to pxe", tool("17", "chassis", "bootdev", "pxe")...)
		l.says("Force PXE", tool("17", "chassis", "bootparam", "get", "5")...)
		l.says("Up/On", tool("3", "power", "on")...)
		l.is("rack-2", "on")
		l.says("Power is on", tool("17", "power", "status")...)
		l.says("No override", tool("17", "chassis", "bootparam", "get", "5")...) // it was for one start
		since := l.look("rack-2").Since
		l.says("Reset", tool("17", "power", "reset")...)
		l.says("Cycle", tool("3", "power", "cycle")...)
		l.is("rack-2", "on")
		if !l.look("rack-2").Since.After(since.Add(-time.Second)) {
			t.Error("a cycle is a new start")
		}
		l.says("Set Boot Device to disk", tool("3", "chassis", "bootdev", "disk", "options=persistent")...)
		l.says("Down/Off", tool("17", "power", "off")...)
		l.is("rack-2", "off")
		for _, c := range [][]string{{"operator", "wrong"}, {"nobody", l.password()}, {"", ""}} {
			out, err := l.run("ipmitool", "-I", "lanplus", "-C", "17", "-H", "10.79.0.2", "-U", c[0], "-f", l.file("wrong", c[1]),
				"power", "on")
			if err == nil {
				t.Errorf("user %q was let in: %s", c[0], out)
			}
		}
		l.is("rack-2", "off")
	})
	t.Run("curl", func(t *testing.T) {
		l := l.in(t)
		ask := func(user, path string, more ...string) string {
			config := l.file("curl", fmt.Sprintf(
				"user = %q\ninsecure\nsilent\nwrite-out = \" %%{http_code}\"\nurl = \"https://10.79.0.3%s\"\n", user, path))
			out, err := l.run(append([]string{"curl", "--config", config}, more...)...)
			if err != nil {
				t.Fatal(err, out)
			}
			return out
		}
		wants := func(have, want string) {
			t.Helper()
			if !strings.Contains(have, want) {
				t.Errorf("%q lacks %q", have, want)
			}
		}
		me, system := "operator:"+l.password(), "/redfish/v1/Systems/rack-3"
		wants(ask(":", "/redfish/v1/"), " 200")
		for _, other := range []string{":", "operator:wrong", "nobody:" + l.password()} {
			wants(ask(other, system), " 401")
			wants(ask(other, system+"/Actions/ComputerSystem.Reset", "-d", `{"ResetType":"On"}`), " 401")
		}
		l.is("rack-3", "off")
		wants(ask(me, system), `"PowerState":"Off"`)
		wants(ask(me, system+"/Actions/ComputerSystem.Reset", "-d", `{"ResetType":"ForceRestart"}`), " 409")
		wants(ask(me, system+"/Actions/ComputerSystem.Reset", "-d", `{"ResetType":"Nmi"}`), " 400")
		wants(ask(me, system+"/Actions/ComputerSystem.Reset", "-d", `{"ResetType":`), " 400")
		wants(ask(me, system, "-X", "PATCH", "-d", `{"Boot":{"BootSourceOverrideTarget":"Usb"}}`), " 400")
		wants(ask(me, system, "-X", "PATCH", "-d", `{"Boot":{"BootSourceOverrideMode":"UEFI"}}`), " 400")
		wants(ask(me, system+"/Actions/ComputerSystem.Reset", "-d", `{"ResetType":"On"}`), " 204")
		l.is("rack-3", "on")
		wants(ask(me, system+"/Actions/ComputerSystem.Reset", "-d", `{"ResetType":"ForceOff"}`), " 204")
		l.is("rack-3", "off")
	})
	t.Run("gofish", func(t *testing.T) { l.in(t).gofish("rack-3") })
}

func (l lab) gofish(name string) {
	t := l.t
	open := func(password string, basic bool) (*gofish.APIClient, error) {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			return netns.Dial(ctx, l.Netns(), network, address)
		}
		transport.DisableKeepAlives = true
		return gofish.ConnectContext(t.Context(), gofish.ClientConfig{
			Endpoint: "https://10.79.0.3", Username: "operator", Password: password, BasicAuth: basic, Insecure: true,
			HTTPClient: &http.Client{Transport: insecure(transport)},
		})
	}
	if c, err := open("wrong", false); err == nil {
		c.Logout()
		t.Error("a wrong password made a session")
	}
	for _, basic := range []bool{true, false} {
		c, err := open(l.password(), basic)
		if err != nil {
			t.Fatal(err)
		}
		systems, err := c.Service.Systems()
		if err != nil || len(systems) != 1 || systems[0].ID != name {
			t.Fatalf("systems: %v, %v", systems, err)
		}
		s := systems[0]
		if err := s.SetBoot(&schemas.Boot{BootSourceOverrideTarget: schemas.HddBootSource,
			BootSourceOverrideEnabled: schemas.OnceBootSourceOverrideEnabled}); err != nil {
			t.Error("boot override:", err)
		}
		// The library's own Reset does not find the action (stmcginnis/gofish#502).
		for _, reset := range []struct {
			kind  schemas.ResetType
			state string
		}{{schemas.OnResetType, "on"}, {schemas.ForceOffResetType, "off"}} {
			response, err := c.Post(s.ODataID+"/Actions/ComputerSystem.Reset", map[string]any{"ResetType": reset.kind})
			if err != nil {
				t.Errorf("%s: %v", reset.kind, err)
				continue
			}
			response.Body.Close()
			l.is(name, reset.state)
		}
		c.Logout()
	}
}

func TestMachinesFailAsTheyAreTold(t *testing.T) {
	testall.Only(t)
	l := newLab(t, small(3))
	t.Run("no-power", func(t *testing.T) {
		l := l.in(t)
		l.do("rack-2", rack.NoPower)
		l.says("Up/On", "ipmitool", "-I", "lanplus", "-C", "17", "-H", "10.79.0.2", "-U", "operator", "-f",
			l.file("password", l.password()), "power", "on")
		l.is("rack-2", "off")
		l.do("rack-2", rack.Heal)
		l.do("rack-2", rack.On)
		l.is("rack-2", "on")
	})
	t.Run("hang", func(t *testing.T) {
		l := l.in(t)
		works := func() bool {
			before := l.ticks("rack-2")
			time.Sleep(300 * time.Millisecond)
			return l.ticks("rack-2") > before+2
		}
		l.eventually("the firmware computes", works)
		l.do("rack-2", rack.Hang)
		l.eventually("the machine stops", func() bool { return !works() })
		l.is("rack-2", "on")
		if faults := l.look("rack-2").Faults; len(faults) != 1 || faults[0] != rack.Hang {
			t.Error(faults)
		}
		l.do("rack-2", rack.Heal)
		l.eventually("the machine goes on", works)
	})
	t.Run("kill", func(t *testing.T) {
		l := l.in(t)
		l.do("rack-2", rack.Kill)
		l.is("rack-2", "off")
		l.do("rack-2", rack.On)
		l.is("rack-2", "on")
		l.do("rack-2", rack.Off)
	})
	t.Run("no-dhcp", func(t *testing.T) {
		l := l.in(t)
		heard := l.dnsmasq()
		l.do("rack-1", rack.NoDHCP)
		l.do("rack-1", rack.On)
		l.eventually("iPXE asks for an address", func() bool { return strings.Contains(l.console("rack-1"), "Configuring") })
		time.Sleep(time.Second)
		if text := heard(); strings.Contains(text, "52:54:00:00:01:00") {
			t.Errorf("a packet arrived: %s", text)
		}
		l.do("rack-1", rack.Heal)
		l.eventually("the machine gets an address", func() bool {
			return strings.Contains(heard(), "DHCPACK(br0) 10.78.0.11 52:54:00:00:01:00")
		})
	})
	t.Run("unplug", func(t *testing.T) {
		l := l.in(t)
		l.do("rack-1", rack.Off)
		heard := l.dnsmasq()
		l.do("rack-1", rack.Unplug)
		l.do("rack-1", rack.On)
		l.eventually("iPXE asks for an address", func() bool { return strings.Contains(l.console("rack-1"), "Configuring") })
		time.Sleep(time.Second)
		if text := heard(); strings.Contains(text, "52:54:00:00:01:00") {
			t.Errorf("a packet arrived: %s", text)
		}
		l.do("rack-1", rack.Heal)
		l.eventually("the machine gets an address", func() bool {
			return strings.Contains(heard(), "DHCPACK(br0) 10.78.0.11 52:54:00:00:01:00")
		})
	})
	t.Run("what cannot be", func(t *testing.T) {
		if _, err := l.Do(t.Context(), "rack-3", rack.Hang, 0); !errors.Is(err, rack.ErrConflict) {
			t.Error("a machine that is off was hung:", err)
		}
		if _, err := l.Do(t.Context(), "rack-9", rack.On, 0); !errors.Is(err, rack.ErrNoMachine) {
			t.Error(err)
		}
		if _, err := l.Do(t.Context(), "rack-3", "explode", 0); err == nil {
			t.Error("a machine exploded")
		}
	})
}

// bootSector is a boot sector of the BIOS's kind: it writes a sign to the serial line and does what the code says.
func bootSector(code ...byte) []byte {
	sector := make([]byte, 512)
	copy(sector, append([]byte{
		0xba, 0xf8, 0x03, // mov dx, 0x3f8
		0xb0, '!', // mov al, '!'
		0xee, // out dx, al
	}, code...))
	sector[510], sector[511] = 0x55, 0xaa
	return sector
}

func TestWhatASystemDoesByItself(t *testing.T) {
	s := small(1)
	s.Power, s.Firmware = rack.Redfish, rack.BIOS
	l := newLab(t, s)
	client := func(body, path string, method string) {
		t.Helper()
		config := l.file("curl", fmt.Sprintf("user = \"operator:%s\"\ninsecure\nsilent\nfail-with-body\n", l.password()))
		l.says("", "curl", "--config", config, "-X", method, "-d", body, "https://10.79.0.1/redfish/v1/Systems/rack-1"+path)
	}
	disk := filepath.Join(l.Machine("rack-1"), "disk0.raw")
	boot := func(sector []byte) {
		t.Helper()
		file, err := os.OpenFile(disk, os.O_WRONLY, 0)
		if err == nil {
			_, err = file.WriteAt(sector, 0)
			err = errors.Join(err, file.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		client(`{"ResetType":"On"}`, "/Actions/ComputerSystem.Reset", "POST")
	}
	client(`{"Boot":{"BootSourceOverrideTarget":"Hdd","BootSourceOverrideEnabled":"Continuous"}}`, "", "PATCH")

	boot(bootSector(0xba, 0x04, 0x06, 0xb8, 0x00, 0x20, 0xef)) // PM1a_CNT at 0x604: S5
	l.eventually("a system that powers off is off", func() bool { return l.look("rack-1").State == "off" })
	if signs := strings.Count(l.console("rack-1"), "!"); signs != 1 {
		t.Errorf("the system ran %d times", signs)
	}

	write := bootSector(
		// int 13h: write a sector to the first disk, track 0, sector 2
		0xb8, 0x01, 0x03, 0xb9, 0x02, 0x00, 0xba, 0x80, 0x00, 0xbb, 0x00, 0x7c,
		0xcd, 0x13,
		0xb0, '{', 0x73, 0x02, 0xb0, '}', // } in place of { if it failed; no firmware writes either
		0xba, 0xf8, 0x03, 0xee, // to the serial line
		0xba, 0x04, 0x06, 0xb8, 0x00, 0x20, 0xef)
	for _, sign := range []string{"{", "}"} { // not right after the first sign: the firmware's own last line may end between
		boot(write)
		l.eventually("the system has tried to write", func() bool { return l.look("rack-1").State == "off" })
		if text := l.console("rack-1"); !strings.Contains(text, sign) {
			t.Errorf("the console lacks %s: %q", sign, text)
		}
		l.do("rack-1", rack.BadDisk)
	}
	l.do("rack-1", rack.Heal)

	boot(bootSector(0xb0, 0xfe, 0xe6, 0x64, 0xf4)) // the keyboard controller's reset
	l.eventually("a system that reboots comes back", func() bool { return strings.Count(l.console("rack-1"), "!") > 2 })
	l.is("rack-1", "on")
}

func TestARackComesBackAfterItsProcessWasKilledAndGoesWithoutATrace(t *testing.T) {
	l := newLab(t, small(2))
	state, err := l.up(small(2))
	if err != nil {
		t.Fatal("the same again:", err)
	}
	if _, err := l.up(small(3)); !errors.Is(err, rack.ErrConflict) || !strings.Contains(err.Error(), "machines is 2, not 3") {
		t.Error("another rack in the same place:", err)
	}
	copied := filepath.Join(t.TempDir(), "rack.csv")
	if err := l.WriteList(copied); err != nil {
		t.Fatal(err)
	}
	list, _ := os.ReadFile(copied)
	l.do("rack-1", rack.On)
	l.do("rack-2", rack.On)
	disk := filepath.Join(l.Machine("rack-1"), "disk0.raw")
	if err := os.WriteFile(disk, []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range func() []string { p, _ := filepath.Glob("/proc/[0-9]*/cmdline"); return p }() {
		if line, err := os.ReadFile(path); err == nil && bytes.Contains(line, []byte(l.password())) {
			t.Errorf("the password is in %q", line)
		}
	}

	if err := unix.Kill(state.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	l.eventually("machines end with the rack", func() bool { return len(l.processes("")) == 0 })
	l.eventually("the kernel has closed what it had open", func() bool { // a moment after its command line is gone
		fd, err := l.Hold()
		return err == nil && unix.Close(fd) == nil
	})
	if _, err := l.Look(t.Context()); !errors.Is(err, rack.ErrNoRack) {
		t.Error("a killed rack answers:", err)
	}
	if _, err := l.up(small(2)); err != nil {
		t.Fatal(err)
	}
	l.is("rack-1", "off")
	if text, err := os.ReadFile(disk); err != nil || !bytes.HasPrefix(text, []byte("data")) || len(text) != 64<<20 {
		t.Errorf("the disk lost its data: %d bytes, %v", len(text), err)
	}
	if again, _ := os.ReadFile(l.CSV()); !bytes.Equal(again, list) {
		t.Errorf("the list is another:\n%s", again)
	}

	l.do("rack-1", rack.On)
	for range 2 {
		if err := l.Down(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if left := l.processes(""); len(left) > 0 {
		t.Error("processes are left:", left)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || bytes.Contains(mounts, []byte(l.Folder)) {
		t.Error("a mount is left", err)
	}
	for _, path := range []string{string(l.Folder), copied} {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
}

// insecure is for BMCs, whose certificates no CA has signed.
func insecure(t *http.Transport) *http.Transport {
	t.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	return t
}
