package power_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bougou/go-ipmi/pkg/bmc"
	"github.com/bougou/go-ipmi/pkg/hal/mock"
	"github.com/bougou/go-ipmi/pkg/server"
	"github.com/bougou/go-ipmi/pkg/types"

	"muster/internal/drivers/power"
	"muster/internal/netns"
)

// An IPMI password has at most 20 bytes; this one has all of them.
const _ = uint(20 - len(password))

// goIPMIPeer is the BMC of the library that the driver uses, in a namespace of its own.
func goIPMIPeer(t *testing.T) peer {
	space := namespace(t)
	machine := mock.New()
	goIPMI(t, space, "127.0.0.1:623", machine, nil)
	return peer{
		target: target(space, "ipmi://127.0.0.1", secretFile(t, user+":"+password)),
		dead:   target(silent(t, space), "ipmi://127.0.0.2", secretFile(t, user+":"+password)),
		boots: func() error {
			chassis := machine.Chassis().(*mock.Chassis)
			flags, err := chassis.GetBootFlags(context.Background())
			if err != nil {
				return err
			}
			if !flags.BootFlagsValid || flags.Persist || flags.BootDeviceSelector != types.BootDeviceSelectorForcePXE || flags.BIOSBootType != types.BIOSBootTypeLegacy {
				return fmt.Errorf("the BMC understood %s", flags.Format())
			}
			return nil
		},
	}
}

// goIPMI serves a machine at an address of a namespace and returns the address. meddle, if there is one, changes what is
// sent.
func goIPMI(t *testing.T, space, address string, machine *mock.HAL, meddle func([]byte) []byte, suites ...types.CipherSuiteID) string {
	t.Helper()
	b := bmc.New(bmc.DeviceInfo{DeviceID: 32, IPMIVersion: 0x20}, [16]byte{1}, machine)
	u, err := b.Users.Add(2, user)
	if err != nil {
		t.Fatal(err)
	}
	u.SetPassword([]byte(password))
	u.Enabled = true
	u.ChannelAccess[1] = bmc.UserChannelAccess{MaxPrivilege: bmc.PrivilegeLevelOperator, Enabled: true}
	var socket net.PacketConn
	if err := netns.Do(space, func() (err error) {
		socket, err = net.ListenPacket("udp", address)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if len(suites) == 0 {
		suites = []types.CipherSuiteID{types.CipherSuiteID3, types.CipherSuiteID17}
	}
	s := server.NewServer(b, meddler{socket.(*net.UDPConn), meddle}, server.WithCipherSuites(suites))
	done := make(chan error, 1)
	go func() { done <- s.Serve(context.Background()) }()
	t.Cleanup(func() {
		s.Close()
		<-done
	})
	return socket.LocalAddr().String()
}

// silent holds port 623 of 127.0.0.2 and never answers, so that not even the kernel does.
func silent(t *testing.T, space string) string {
	t.Helper()
	if err := netns.Do(space, func() error {
		socket, err := net.ListenPacket("udp", "127.0.0.2:623")
		if err == nil {
			t.Cleanup(func() { socket.Close() })
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return space
}

// openIPMIPeer is ipmi_sim of the OpenIPMI project: an implementation that shares nothing with ours.
func openIPMIPeer(t *testing.T) peer {
	simulator, err := exec.LookPath("ipmi_sim")
	if err != nil {
		t.Skip("skipped: ipmi_sim is not installed; `make test` does that")
	}
	space, dir := namespace(t), t.TempDir()
	write(t, filepath.Join(dir, "lan.conf"), 0o600, `name "muster"
set_working_mc 0x20
  startlan 1
    addr 127.0.0.1 623
    priv_limit admin
    allowed_auths_callback none md2 md5 straight
    allowed_auths_user none md2 md5 straight
    allowed_auths_operator none md2 md5 straight
    allowed_auths_admin none md2 md5 straight
    guid a123456789abcdefa123456789abcdef
  endlan
  chassis_control "`+dir+`/chassis"
  user 2 true "`+user+`" "`+password+`" operator 10 none md2 md5 straight
`)
	write(t, filepath.Join(dir, "commands"), 0o600, "mc_setbmc 0x20\nmc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr\nmc_enable 0x20\n")
	// It is called with get or set, power or boot, and for set a value.
	write(t, filepath.Join(dir, "chassis"), 0o700, `#!/bin/sh
case "$1" in
get) echo "$2:$(cat `+dir+`/$2 2>/dev/null || echo 0)" ;;
set) echo "$3" >`+dir+`/$2 ;;
esac
`)
	write(t, filepath.Join(dir, "boot"), 0o600, "none\n")
	c := exec.Command(simulator, "-c", filepath.Join(dir, "lan.conf"), "-f", filepath.Join(dir, "commands"), "-s", dir, "-n")
	start(t, space, c)
	p := peer{
		target: target(space, "ipmi://127.0.0.1:623", secretFile(t, user+":"+password)),
		dead:   target(silent(t, space), "ipmi://127.0.0.2", secretFile(t, user+":"+password)),
		boots: func() error {
			text, err := os.ReadFile(filepath.Join(dir, "boot"))
			if err != nil || strings.TrimSpace(string(text)) != "pxe" {
				return fmt.Errorf("the machine shall boot from %q: %w", text, err)
			}
			return nil
		},
	}
	d := open(t, power.Opener{}, p.target)
	answers(t, func() error { _, err := d.State(t.Context()); return err })
	return p
}

// start runs a program of a peer until the end of the test.
func start(t *testing.T, space string, c *exec.Cmd) {
	t.Helper()
	var said strings.Builder
	c.Stdout, c.Stderr, c.WaitDelay = &said, &said, time.Second
	if err := netns.Do(space, c.Start); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Kill()
		c.Wait()
		if t.Failed() {
			t.Logf("%s said: %s", c.Path, said.String())
		}
	})
}

// answers waits for a peer to be ready.
func answers(t *testing.T, ask func() error) {
	t.Helper()
	deadline := time.Now().Add(15 * time.Second)
	for {
		err := ask()
		if err == nil {
			return
		}
		if time.Now().After(deadline) || errors.Is(err, power.ErrCredentials) {
			t.Fatal("the peer does not answer: ", err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func write(t *testing.T, name string, mode os.FileMode, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}
