package power

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/bougou/go-ipmi/pkg/client"
	"github.com/bougou/go-ipmi/pkg/command/chassis"
	"github.com/bougou/go-ipmi/pkg/types"
)

// Timing of IPMI. A datagram is repeated until the context ends, since BMCs lose some, above all while they are busy.
const (
	ipmiResend  = time.Second
	ipmiGoodbye = 250 * time.Millisecond // to close the session; a BMC forgets it by itself after a minute
)

// Limits of RMCP+ (IPMI 2.0, sections 13.20 and 22.30).
const (
	ipmiMaxUser     = 16
	ipmiMaxPassword = 20
)

// bmc switches a machine by IPMI 2.0 over the network (RMCP+).
type bmc struct {
	control     Control
	credentials string
	namespace   string
	uefi        bool
}

func (b bmc) State(ctx context.Context) (state State, err error) {
	err = b.session(ctx, func(c *client.Client) error {
		state, err = b.look(ctx, c)
		return err
	})
	return state, err
}

func (b bmc) On(ctx context.Context) error {
	return b.become(ctx, On, chassis.ChassisControlPowerUp)
}

func (b bmc) Off(ctx context.Context) error {
	return b.become(ctx, Off, chassis.ChassisControlPowerDown)
}

// become asks for a state that the machine is not in: some BMCs refuse to do what is done.
func (b bmc) become(ctx context.Context, wanted State, how chassis.ChassisControl) error {
	return b.session(ctx, func(c *client.Client) error {
		state, err := b.look(ctx, c)
		if err != nil || state == wanted {
			return err
		}
		_, err = c.ChassisControl(ctx, how)
		return err
	})
}

func (b bmc) look(ctx context.Context, c *client.Client) (State, error) {
	status, err := c.GetChassisStatus(ctx)
	switch {
	case err != nil:
		return Unknown, err
	case status.PowerIsOn:
		return On, nil
	}
	return Off, nil
}

// BootFromNetwork sets the boot flags for the next boot only (IPMI 2.0, table 28-14). They say UEFI or BIOS, too, and
// have no value for "as before": the machine's last boot decides, or what the flags say already.
func (b bmc) BootFromNetwork(ctx context.Context) error {
	return b.session(ctx, func(c *client.Client) error {
		before := &types.BootOptionParam_BootFlags{}
		if err := c.GetSystemBootOptionsParamFor(ctx, before); err != nil && !refused(err) {
			return err
		}
		// Without this a BMC forgets the flags when no power command follows within a minute. Not all BMCs have it.
		keep := &types.BootOptionParam_BMCBootFlagValidBitClear{DontClearOnCommandReceivedTimeout: true}
		if err := c.SetSystemBootOptionsParamFor(ctx, keep); err != nil && !refused(err) {
			return err
		}
		mode := types.BIOSBootType(b.uefi || before.BootFlagsValid && bool(before.BIOSBootType))
		err := c.SetBootDevice(ctx, types.BootDeviceSelectorForcePXE, mode, false)
		if code, ok := completion(err); ok && (code == types.CodeInvalidCommand || code == parameterNotSupported) {
			return ErrUnsupported
		}
		return err
	})
}

// parameterNotSupported is a completion code of the boot options' commands (IPMI 2.0, table 28-13).
const parameterNotSupported types.CompletionCode = 0x80

// refused says that the BMC answered, and what it said was no.
func refused(err error) bool {
	_, ok := completion(err)
	return ok
}

func completion(err error) (types.CompletionCode, bool) {
	var response *types.ResponseError
	if !errors.As(err, &response) {
		return 0, false
	}
	return response.CompletionCode(), true
}

// session runs do in a session of its own. Suite 17 (SHA-256) is tried first, suite 3 (SHA-1) if the BMC has no better.
func (b bmc) session(ctx context.Context, do func(*client.Client) error) error {
	who, err := readCredentials(b.credentials)
	if err != nil {
		return err
	}
	if len(who.user) > ipmiMaxUser || len(who.password()) > ipmiMaxPassword {
		return fmt.Errorf("%w: %s: IPMI has users of at most %d bytes and passwords of at most %d", ErrCredentials, b.credentials, ipmiMaxUser, ipmiMaxPassword)
	}
	err = b.sessionWith(ctx, who, types.CipherSuiteID17, do)
	if errors.Is(err, errSuite) {
		err = b.sessionWith(ctx, who, types.CipherSuiteID3, do)
	}
	if code, ok := completion(err); ok && code == types.CodeInsufficientPrivilege {
		return fmt.Errorf("%w: the user lacks the privilege: %w", ErrCredentials, err)
	}
	return err
}

func (b bmc) sessionWith(ctx context.Context, who credentials, suite types.CipherSuiteID, do func(*client.Client) error) error {
	connection, err := dial(ctx, b.namespace, "udp", b.control.Host, b.control.Port)
	if err != nil {
		return err
	}
	defer connection.Close()
	c, err := client.NewClient(b.control.Host, int(b.control.Port), who.user, who.password())
	if err != nil {
		return err
	}
	c.WithUDPProxy(dialled{connection}).WithTimeout(ipmiResend).WithRetry(int(patience / ipmiResend)).
		WithCipherSuiteID(suite).WithMaxPrivilegeLevel(types.PrivilegeLevelOperator)
	if err := login(ctx, c, suite); err != nil {
		return err
	}
	defer func() {
		// A reader that the end of the context left behind holds the client's lock until its time is up.
		connection.SetReadDeadline(time.Now())
		goodbye, cancel := context.WithTimeout(context.WithoutCancel(ctx), ipmiGoodbye)
		defer cancel()
		c.Close(goodbye)
	}()
	return do(c)
}

// errSuite says that the BMC lacks the cipher suite that was asked for.
var errSuite = errors.New("no such cipher suite")

// login opens an RMCP+ session (IPMI 2.0, section 13.15). The client's own Connect does the same, but hides from its
// caller what was refused, and starts a goroutine to keep the session.
func login(ctx context.Context, c *client.Client, suite types.CipherSuiteID) error {
	opened, err := c.OpenSession(ctx)
	if status, ok := rmcpStatus(err); ok && unknownSuite(status) || errors.Is(err, types.ErrUnpackedDataTooShort) {
		return fmt.Errorf("open session: %w: %w", errSuite, err) // some BMCs end their refusal after the status, which the library takes for too short
	}
	if err == nil {
		auth, integrity, encryption, _ := types.GetCipherSuiteAlgorithms(suite)
		if types.AuthAlg(opened.AuthAlg) != auth || types.IntegrityAlg(opened.IntegrityAlg) != integrity || types.CryptAlg(opened.CryptAlg) != encryption {
			return errors.New("open session: the BMC answers with other algorithms than it was asked for")
		}
		_, err = c.RAKPMessage1(ctx)
	}
	if err == nil {
		_, err = c.RAKPMessage3(ctx)
	}
	if err == nil {
		_, err = c.SetSessionPrivilegeLevel(ctx, types.PrivilegeLevelOperator)
	}
	status, _ := rmcpStatus(err)
	code, _ := completion(err)
	switch {
	case errors.Is(err, client.ErrRAKPAuthentication), status == types.RmcpStatusCodeInvalidIntegrityCheckValue:
		return fmt.Errorf("%w: the BMC refuses the password", ErrCredentials)
	case status == types.RmcpStatusCodeUnauthorizedName, status == types.RmcpStatusCodeInvalidNameLength:
		return fmt.Errorf("%w: the BMC does not know the user", ErrCredentials)
	case status == types.RmcpStatusCodeInvalidRole, status == types.RmcpStatusCodeUnauthorizedRoleOfPriLevel,
		code == types.CodeSetSessionPrivilegeLevelLevelNotAvailable, code == types.CodeSetSessionPrivilegeLevelExceedsLimit:
		return fmt.Errorf("%w: the BMC does not let the user be an operator", ErrCredentials)
	case err != nil:
		return fmt.Errorf("open session: %w", err)
	}
	return nil
}

func rmcpStatus(err error) (types.RmcpStatusCode, bool) {
	var status *types.RmcpStatusError
	if !errors.As(err, &status) {
		return 0, false
	}
	return status.StatusCode(), true
}

// unknownSuite says that a session failed because the BMC lacks the cipher suite, or a part of it.
func unknownSuite(status types.RmcpStatusCode) bool {
	switch status {
	case types.RmcpStatusCodeInvalidAuthAlg, types.RmcpStatusCodeInvalidIntegrityAlg, types.RmcpStatusCodeInvalidConfidentAlg,
		types.RmcpStatusCodeNoMatchingAuthPayload, types.RmcpStatusCodeNoMatchingIntegrityPayload,
		types.RmcpStatusCodeNoCipherSuiteMatch, types.RmcpStatusCodeIllegalParameter:
		return true
	}
	return false
}

// dialled gives the client a socket that is in the right namespace already.
type dialled struct{ connection net.Conn }

func (d dialled) Dial(string, string) (net.Conn, error) { return d.connection, nil }
