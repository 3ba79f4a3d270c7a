package ipmi_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bougou/go-ipmi/pkg/hal/mock"
	"github.com/bougou/go-ipmi/pkg/types"

	"muster/internal/drivers/power"
	"muster/internal/drivers/power/powertest"
)

func TestABMCWithEitherCipherSuiteWillDo(t *testing.T) {
	for name, suites := range map[string][]types.CipherSuiteID{
		"3 only": {types.CipherSuiteID3}, "17 only": {types.CipherSuiteID17},
		"both": {types.CipherSuiteID3, types.CipherSuiteID17},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := goIPMI(t, "", "127.0.0.1:0", mock.New(), nil, suites...)
			d := open(t, powertest.Target("", "ipmi://"+address, powertest.Secret(t)))
			powertest.Becomes(t, d, power.Off)
			if err := d.On(t.Context()); err != nil {
				t.Fatal(err)
			}
			powertest.Becomes(t, d, power.On)
		})
	}
}

func TestAnIPMIBootFromTheNetworkKeepsUEFI(t *testing.T) {
	for name, c := range map[string]struct {
		uefi   bool
		before *types.BootOptionParam_BootFlags
		wanted types.BIOSBootType
	}{
		"last booted by UEFI": {true, nil, types.BIOSBootTypeEFI},
		"last booted by BIOS": {false, nil, types.BIOSBootTypeLegacy},
		"the flags say UEFI": {false,
			&types.BootOptionParam_BootFlags{BootFlagsValid: true, BIOSBootType: types.BIOSBootTypeEFI}, types.BIOSBootTypeEFI},
		"the flags are no good any": {false, &types.BootOptionParam_BootFlags{BIOSBootType: types.BIOSBootTypeEFI},
			types.BIOSBootTypeLegacy},
	} {
		t.Run(name, func(t *testing.T) {
			machine := mock.New()
			chassis := machine.Chassis().(*mock.Chassis)
			chassis.BootFlags = c.before
			goal := powertest.Target("", "ipmi://"+goIPMI(t, "", "127.0.0.1:0", machine, nil), powertest.Secret(t))
			goal.UEFI = c.uefi
			if err := open(t, goal).BootFromNetwork(t.Context()); err != nil {
				t.Fatal(err)
			}
			flags, err := chassis.GetBootFlags(t.Context())
			if err != nil || flags.BIOSBootType != c.wanted || flags.BootDeviceSelector != types.BootDeviceSelectorForcePXE ||
				flags.Persist {
				t.Errorf("%v; the BMC understood %s", err, flags.Format())
			}
		})
	}
}

func TestLostDatagramsAreSentAgain(t *testing.T) {
	t.Parallel()
	var sent atomic.Int32
	address := goIPMI(t, "", "127.0.0.1:0", mock.New(), func(answer []byte) []byte {
		if n := sent.Add(1); n == 5 {
			return nil
		}
		return answer
	})
	d := open(t, powertest.Target("", "ipmi://"+address, powertest.Secret(t)))
	if state, err := d.State(t.Context()); err != nil || state != power.Off {
		t.Error(state, err)
	}
}

// What is not sealed with the session's key is not believed, whatever sender it names.
func TestForgedAnswersAreNotBelieved(t *testing.T) {
	// The answer to Get Chassis Status as it is before it is sealed: the power is on.
	lie := []byte{0x81, 0x04, 0x7b, 0x20, 0x08, 0x01, 0x00, 0x01, 0x00, 0x00, 0xd6}
	for name, forge := range map[string]func(true []byte) []byte{
		"neither encrypted nor authenticated": func(real []byte) []byte {
			return append(append(append([]byte(nil), real[:5]...), 0x00),
				append(real[6:14:14], append([]byte{byte(len(lie)), 0}, lie...)...)...)
		},
		"IPMI 1.5": func([]byte) []byte {
			return append([]byte{0x06, 0x00, 0xff, 0x07, 0x00, 0, 0, 0, 0, 0, 0, 0, 0, byte(len(lie))}, lie...)
		},
		"another code":     func(real []byte) []byte { real[len(real)-1] ^= 1; return real },
		"another payload":  func(real []byte) []byte { real[20] ^= 1; return real },
		"no code":          func(real []byte) []byte { return real[:len(real)-16] },
		"no authenticated": func(real []byte) []byte { real[5] &^= 0x40; return real },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var sealed atomic.Int32
			// Answers to: open session, RAKP 1, RAKP 3, and sealed: the privilege level, the status.
			address := goIPMI(t, "", "127.0.0.1:0", mock.New(), func(answer []byte) []byte {
				if answer[5]&0x3f != 0 { // table 13-16: what opens a session is no IPMI message
					return answer
				}
				switch n := sealed.Add(1); n {
				case 1:
					return answer
				case 2:
					time.AfterFunc(200*time.Millisecond, cancel)
				}
				return forge(answer)
			})
			state, err := open(t, powertest.Target("", "ipmi://"+address, powertest.Secret(t))).State(ctx)
			if !errors.Is(err, context.Canceled) || sealed.Load() < 2 {
				t.Errorf("after %d sealed answers it is %s, %v", sealed.Load(), state, err)
			}
		})
	}
}

// FuzzIPMIAnswers: whatever a BMC answers in the place of one of its datagrams, we come back, and with an error unless
// the damage was none.
func FuzzIPMIAnswers(f *testing.F) {
	f.Add(uint8(1), uint8(0), []byte{0})
	for n := range uint8(8) {
		f.Add(n, uint8(1), []byte{0xff, 0, 6, 0xff})
		f.Add(n, uint8(30), []byte{})
		f.Add(n, uint8(0), make([]byte, 40))
		f.Add(n, uint8(12), []byte{0, 0, 0, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff})
	}
	f.Fuzz(func(t *testing.T, which, cut uint8, flip []byte) {
		var sent atomic.Int32
		address := goIPMI(t, "", "127.0.0.1:0", mock.New(), func(answer []byte) []byte {
			if sent.Add(1) != int32(which%8)+1 {
				return answer
			}
			for i := range min(len(flip), len(answer)) {
				answer[i] ^= flip[i]
			}
			return answer[:max(0, len(answer)-int(cut))]
		})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		d := open(t, powertest.Target("", "ipmi://"+address, powertest.Secret(t)))
		began := time.Now()
		state, err := d.State(ctx)
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("it took %v", took)
		}
		if err == nil && state != power.Off {
			t.Errorf("a machine that is off is %s", state)
		}
	})
}

// meddler changes the datagrams that a BMC sends; what becomes nothing is lost.
type meddler struct {
	*net.UDPConn
	meddle func([]byte) []byte
}

func (m meddler) WriteTo(data []byte, to net.Addr) (int, error) {
	if m.meddle != nil {
		data = m.meddle(append([]byte(nil), data...))
	}
	if len(data) == 0 {
		return 0, nil
	}
	return m.UDPConn.WriteTo(data, to)
}
