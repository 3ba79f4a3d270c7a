package ipmi_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bougou/go-ipmi/pkg/bmc"
	"github.com/bougou/go-ipmi/pkg/hal/mock"
	"github.com/bougou/go-ipmi/pkg/server"
	"github.com/bougou/go-ipmi/pkg/types"
	"go.uber.org/goleak"

	"muster/internal/drivers/power"
	"muster/internal/drivers/power/ipmi"
	"muster/internal/drivers/power/powertest"
	"muster/internal/kit/netns"
)

const (
	user     = powertest.User
	password = powertest.Password
)

// An IPMI password has at most 20 bytes; this one has nearly all of them.
const _ = uint(20 - len(password))

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, target power.Target) power.Driver {
	t.Helper()
	return powertest.Open(t, ipmi.Factory(), "", target)
}

func TestItKeepsTheContract(t *testing.T) {
	for name, peer := range map[string]func(*testing.T) powertest.Peer{
		"go-ipmi's BMC": goIPMIPeer, "OpenIPMI's BMC": openIPMIPeer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			powertest.Test(t, ipmi.Factory(), peer)
		})
	}
}

// goIPMIPeer is the BMC of the library that the driver uses, in a namespace of its own.
func goIPMIPeer(t *testing.T) powertest.Peer {
	space := powertest.Namespace(t)
	machine := mock.New()
	goIPMI(t, space, "127.0.0.1:623", machine, nil)
	return powertest.Peer{
		Target: powertest.Target(space, "ipmi://127.0.0.1", powertest.Secret(t)),
		Dead:   powertest.Target(silent(t, space), "ipmi://127.0.0.2", powertest.Secret(t)),
		Boots: func() error {
			chassis := machine.Chassis().(*mock.Chassis)
			flags, err := chassis.GetBootFlags(context.Background())
			if err != nil {
				return err
			}
			if !flags.BootFlagsValid || flags.Persist || flags.BootDeviceSelector != types.BootDeviceSelectorForcePXE ||
				flags.BIOSBootType != types.BIOSBootTypeLegacy {
				return fmt.Errorf("the BMC understood %s", flags.Format())
			}
			return nil
		},
	}
}

// goIPMI serves a machine at an address of a namespace and returns the address. meddle, if there is one, changes what is
// sent.
func goIPMI(t *testing.T, space, address string, machine *mock.HAL, meddle func([]byte) []byte,
	suites ...types.CipherSuiteID) string {
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
func openIPMIPeer(t *testing.T) powertest.Peer {
	simulator, err := exec.LookPath("ipmi_sim")
	if err != nil {
		t.Skip("skipped: ipmi_sim is not installed; `make test` does that")
	}
	space, dir := powertest.Namespace(t), t.TempDir()
	powertest.Write(t, filepath.Join(dir, "lan.conf"), 0o600, `name "muster"
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
	powertest.Write(t, filepath.Join(dir, "commands"), 0o600,
		"mc_setbmc 0x20\nmc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr\nmc_enable 0x20\n")
	// It is called with get or set, power or boot, and for set a value.
	powertest.Write(t, filepath.Join(dir, "chassis"), 0o700, `#!/bin/sh
case "$1" in
get) echo "$2:$(cat `+dir+`/$2 2>/dev/null || echo 0)" ;;
set) echo "$3" >`+dir+`/$2 ;;
esac
`)
	powertest.Write(t, filepath.Join(dir, "boot"), 0o600, "none\n")
	c := exec.Command(simulator, "-c", filepath.Join(dir, "lan.conf"), "-f", filepath.Join(dir, "commands"), "-s", dir, "-n")
	powertest.Start(t, space, c)
	p := powertest.Peer{
		Target: powertest.Target(space, "ipmi://127.0.0.1:623", powertest.Secret(t)),
		Dead:   powertest.Target(silent(t, space), "ipmi://127.0.0.2", powertest.Secret(t)),
		Boots: func() error {
			text, err := os.ReadFile(filepath.Join(dir, "boot"))
			if err != nil || strings.TrimSpace(string(text)) != "pxe" {
				return fmt.Errorf("the machine shall boot from %q: %w", text, err)
			}
			return nil
		},
	}
	powertest.Answers(t, open(t, p.Target))
	return p
}
