// Package ipmi switches machines by IPMI 2.0 over the network.
//
// What enters: a BMC's address and its user's name and password. What leaves: chassis commands over RMCP+, and whether the
// machine is on.
package ipmi

import (
	"context"
	"errors"
	"fmt"

	"github.com/bougou/go-ipmi/pkg/command/chassis"
	"github.com/bougou/go-ipmi/pkg/types"

	"muster/internal/drivers/power"
)

// Limits of RMCP+ (IPMI 2.0, sections 13.20 and 22.30), in bytes.
const (
	ipmiMaxUser     = 16
	ipmiMaxPassword = 20
)

// parameterNotSupported is a completion code of the boot options' commands (IPMI 2.0, section 28.12).
const parameterNotSupported types.CompletionCode = 0x80

const scheme = "ipmi"

// port is RMCP's (IPMI 2.0, section 13.1.2).
const port = 623

// Factory declares the driver. Its BMCs say who may log in.
func Factory() power.Factory {
	return power.Factory{
		Scheme: scheme, Title: "IPMI", Usage: "ipmi://HOST", Form: "ipmi://HOST[:PORT]",
		About:        "a BMC that speaks IPMI 2.0 (lanplus)",
		Capabilities: power.Capabilities{SwitchesOff: true, SeesPower: true, Credentials: power.Required},
		Parse:        parse,
	}
}

func parse(rest string) (power.Control, error) {
	address, u, err := power.ParseURL(scheme, rest, port)
	if err != nil {
		return nil, err
	}
	if u.Path != "" || u.RawQuery != "" || u.ForceQuery {
		return nil, errors.New("nothing may follow host and port")
	}
	return control{address}, nil
}

// control is where a BMC is.
type control struct{ power.Address }

func (c control) String() string { return scheme + "://" + c.Address.String() }
func (c control) To() string     { return c.Host }

func (c control) Open(o power.Opening) (power.Driver, error) {
	return bmc{address: c.Address, credentials: o.Credentials, namespace: o.Network.Namespace, uefi: o.UEFI}, nil
}

// bmc switches a machine. Each call has a session of its own.
type bmc struct {
	address     power.Address
	credentials power.Source
	namespace   string
	uefi        bool
}

func (b bmc) State(ctx context.Context) (state power.State, err error) {
	err = b.session(ctx, func(s *rmcp) error {
		state, err = look(ctx, s)
		return err
	})
	return state, err
}

func (b bmc) On(ctx context.Context) error {
	return b.become(ctx, power.On, chassis.ChassisControlPowerUp)
}

func (b bmc) Off(ctx context.Context) error {
	return b.become(ctx, power.Off, chassis.ChassisControlPowerDown)
}

// become asks for a state that the machine is not in: some BMCs refuse to do what is done.
func (b bmc) become(ctx context.Context, wanted power.State, how chassis.ChassisControl) error {
	return b.session(ctx, func(s *rmcp) error {
		state, err := look(ctx, s)
		if err != nil || state == wanted {
			return err
		}
		return s.do(ctx, &chassis.ChassisControlRequest{ChassisControl: how}, &chassis.ChassisControlResponse{})
	})
}

func look(ctx context.Context, s *rmcp) (power.State, error) {
	var status chassis.GetChassisStatusResponse
	switch err := s.do(ctx, &chassis.GetChassisStatusRequest{}, &status); {
	case err != nil:
		return power.Unknown, err
	case status.PowerIsOn:
		return power.On, nil
	}
	return power.Off, nil
}

// BootFromNetwork sets the boot flags for the next boot only (IPMI 2.0, table 28-14). They say UEFI or BIOS, too, and
// have no value for "as before": the machine's last boot decides, or what the flags say already.
func (b bmc) BootFromNetwork(ctx context.Context) error {
	return b.session(ctx, func(s *rmcp) error {
		var before types.BootOptionParam_BootFlags
		var answer chassis.GetSystemBootOptionsParamResponse
		err := s.do(ctx, &chassis.GetSystemBootOptionsParamRequest{ParamSelector: types.BootOptionParamSelector_BootFlags},
			&answer)
		if err != nil && !refused(err) {
			return err
		}
		if before.Unpack(answer.ParamData) != nil {
			before = types.BootOptionParam_BootFlags{} // as good as none
		}
		// Without this a BMC forgets the flags when no power command follows within a minute. Not all BMCs have it.
		err = setBoot(ctx, s, &types.BootOptionParam_BMCBootFlagValidBitClear{DontClearOnCommandReceivedTimeout: true})
		if err != nil && !refused(err) {
			return err
		}
		err = setBoot(ctx, s, &types.BootOptionParam_BootFlags{
			BootFlagsValid: true, BootDeviceSelector: types.BootDeviceSelectorForcePXE,
			BIOSBootType: types.BIOSBootType(b.uefi || before.BootFlagsValid && bool(before.BIOSBootType)),
		})
		if code, ok := completion(err); ok && (code == types.CodeInvalidCommand || code == parameterNotSupported) {
			return power.ErrUnsupported
		}
		return err
	})
}

func setBoot(ctx context.Context, s *rmcp, option types.BootOptionParameter) error {
	selector, _, _ := option.BootOptionParameter()
	return s.do(ctx, &chassis.SetSystemBootOptionsParamRequest{ParamSelector: selector, ParamData: option.Pack()},
		&chassis.SetSystemBootOptionsParamResponse{})
}

// session runs do in a session. Suite 17 (SHA-256) is tried first, suite 3 (SHA-1) if the BMC has no better.
func (b bmc) session(ctx context.Context, do func(*rmcp) error) error {
	who, err := b.credentials.Read()
	if err != nil {
		return err
	}
	if len(who.User) > ipmiMaxUser || len(who.Password()) > ipmiMaxPassword {
		return fmt.Errorf("%w: %s: IPMI has users of at most %d bytes and passwords of at most %d", power.ErrCredentials,
			b.credentials, ipmiMaxUser, ipmiMaxPassword)
	}
	connection, err := b.address.Dial(ctx, b.namespace, "udp")
	if err != nil {
		return err
	}
	defer connection.Close()
	s, err := openRMCP(ctx, connection, who, types.CipherSuiteID17)
	if errors.Is(err, errSuite) {
		s, err = openRMCP(ctx, connection, who, types.CipherSuiteID3)
	}
	if err == nil {
		defer s.close()
		err = do(s)
	}
	return explainIPMI(err)
}

// explainIPMI tells errors of credentials from others.
func explainIPMI(err error) error {
	if status, is := errors.AsType[*types.RmcpStatusError](err); is {
		switch status.StatusCode() {
		case types.RmcpStatusCodeInvalidIntegrityCheckValue:
			return fmt.Errorf("%w: the BMC refuses the password", power.ErrCredentials)
		case types.RmcpStatusCodeUnauthorizedName, types.RmcpStatusCodeInvalidNameLength:
			return fmt.Errorf("%w: the BMC does not know the user", power.ErrCredentials)
		case types.RmcpStatusCodeInvalidRole, types.RmcpStatusCodeUnauthorizedRoleOfPriLevel:
			return fmt.Errorf("%w: the BMC does not let the user be an operator", power.ErrCredentials)
		}
	}
	if code, _ := completion(err); code == types.CodeInsufficientPrivilege {
		return fmt.Errorf("%w: the BMC does not let the user do that", power.ErrCredentials)
	}
	return err
}

// refused says that the BMC answered, and what it said was no.
func refused(err error) bool {
	_, ok := completion(err)
	return ok
}

func completion(err error) (types.CompletionCode, bool) {
	response, answered := errors.AsType[*types.ResponseError](err)
	if !answered {
		return 0, false
	}
	return response.CompletionCode(), true
}
