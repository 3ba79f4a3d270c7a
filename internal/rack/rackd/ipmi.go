package rackd

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"

	"github.com/bougou/go-ipmi/pkg/bmc"
	"github.com/bougou/go-ipmi/pkg/hal"
	"github.com/bougou/go-ipmi/pkg/server"
	ipmi "github.com/bougou/go-ipmi/pkg/types"

	"muster/internal/kit/netns"
)

// credentials of the rack's BMCs.
type credentials struct{ user, password string }

// ipmiPort is RMCP's (IPMI 2.0, section 13.1.2).
const ipmiPort = 623

// serveIPMI answers IPMI 2.0 over LAN for a machine at its BMC's address, until the returned function is called.
func serveIPMI(ctx context.Context, m *machine, c credentials) (stop func(), err error) {
	var conn *net.UDPConn
	err = netns.Do(m.folder.Netns(), func() (err error) {
		conn, err = net.ListenUDP("udp4", &net.UDPAddr{IP: m.BMC.AsSlice(), Port: ipmiPort})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("BMC of %s: %w", m.Name, err)
	}
	sum := sha256.Sum256([]byte(m.Name))
	b := bmc.New(bmc.DeviceInfo{DeviceID: 32, DeviceRevision: 1, FirmwareMajor: 1, IPMIVersion: 0x20}, [16]byte(sum[:16]),
		board{m}, bmc.WithV15Disabled()) // IPMI 1.5 has no encryption
	const lan = 1 // the channel
	nobody := b.Users.Update(1, func(u *bmc.User) error { u.Enabled = false; return nil })
	user := b.Users.Upsert(2, func(u *bmc.User) error {
		u.Name, u.Enabled = c.user, true
		u.SetPassword([]byte(c.password))
		u.ChannelAccess[lan] = bmc.UserChannelAccess{MaxPrivilege: bmc.PrivilegeLevelAdministrator, Enabled: true}
		return nil
	})
	if err := errors.Join(nobody, user); err != nil {
		conn.Close()
		return nil, fmt.Errorf("BMC of %s: %w", m.Name, err)
	}
	s := server.NewServer(b, conn)
	return inBackground(func() { _ = s.Serve(ctx) }, s.Close), nil
}

// board is the machine as its BMC knows it: power and what to boot from.
type board struct{ machine *machine }

func (b board) Chassis() hal.ChassisHAL { return b }
func (board) Sensors() hal.SensorHAL    { return nil }
func (board) Storage() hal.StorageHAL   { return nil }
func (board) Network() hal.NetworkHAL   { return nil }
func (board) GPIO() hal.GPIOHAL         { return nil }
func (board) I2C() hal.I2CHAL           { return nil }
func (board) Console() hal.ConsoleHAL   { return nil }
func (board) Close() error              { return nil }

// told is an error as IPMI tells it.
func told(err error) error {
	if errors.Is(err, errOff) {
		return ipmi.CodeNotSupported // d5h: not in the present state
	}
	return err
}

func (b board) PowerState(context.Context) (bool, error) { return b.machine.isOn(), nil }

func (b board) SetPower(ctx context.Context, on bool) error {
	if on {
		return told(b.machine.on(ctx))
	}
	return told(b.machine.off(ctx))
}

func (b board) PowerCycle(ctx context.Context) error { return told(b.machine.cycle(ctx)) }
func (b board) ColdReset(ctx context.Context) error  { return told(b.machine.reset(ctx)) }

// WarmReset is what the server calls for a soft shutdown by ACPI.
func (b board) WarmReset(ctx context.Context) error { return told(b.machine.press(ctx)) }

func (b board) Identify(context.Context, uint8) error { return nil }

func (b board) IntrusionState(context.Context) (bool, error) { return false, hal.ErrNotSupported }

func (b board) SetBootFlags(_ context.Context, flags *ipmi.BootOptionParam_BootFlags) error {
	o := override{once: !flags.Persist, efi: bool(flags.BIOSBootType)}
	switch flags.BootDeviceSelector {
	case ipmi.BootDeviceSelectorNoOverride:
		o = override{}
	case ipmi.BootDeviceSelectorForcePXE:
		o.first = netFirst
	case ipmi.BootDeviceSelectorForceHardDrive:
		o.first = diskFirst
	default:
		return ipmi.CodeRequestDataFieldInvalid
	}
	if !flags.BootFlagsValid {
		o = override{}
	}
	b.machine.setBoot(o)
	return nil
}

func (b board) GetBootFlags(context.Context) (*ipmi.BootOptionParam_BootFlags, error) {
	o := b.machine.getBoot()
	flags := &ipmi.BootOptionParam_BootFlags{BootFlagsValid: o.first != "", Persist: o.first != "" &&
		!o.once, BIOSBootType: ipmi.BIOSBootType(o.efi)}
	switch o.first {
	case netFirst:
		flags.BootDeviceSelector = ipmi.BootDeviceSelectorForcePXE
	case diskFirst:
		flags.BootDeviceSelector = ipmi.BootDeviceSelectorForceHardDrive
	}
	return flags, nil
}

func (b board) SetBootInfoAcknowledge(context.Context, *ipmi.BootOptionParam_BootInfoAcknowledge) error {
	return nil
}

func (b board) GetBootInfoAcknowledge(context.Context) (*ipmi.BootOptionParam_BootInfoAcknowledge, error) {
	return &ipmi.BootOptionParam_BootInfoAcknowledge{}, nil
}
