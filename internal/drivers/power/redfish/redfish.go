// Package redfish switches machines by DMTF Redfish (DSP0266).
//
// What enters: a BMC's address, its certificate's fingerprint where no authority signed it, its user's name and password. What
// leaves: requests over HTTPS, whether the machine is on, and who may log in at the BMC.
package redfish

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"

	"muster/internal/drivers/power"
	"muster/internal/kit/lists"
	"muster/internal/kit/pattern"
)

const (
	systemsPath = "/redfish/v1/Systems"
	// maxAnswer bounds what a service may answer, in bytes. Systems with all their links have some tens of KiB.
	maxAnswer = 1 << 20
)

const scheme = "redfish"

// port is HTTPS's.
const port = 443

// Factory declares the driver. A service may do without credentials; most that have accounts list them.
func Factory() power.Factory {
	return power.Factory{
		Scheme: scheme, Title: "Redfish", Usage: "redfish://HOST",
		Form:         "redfish://HOST[:PORT][/redfish/v1/Systems/ID][?certificate=sha256:HEX]",
		About:        "a BMC that speaks Redfish; the fingerprint trusts a certificate that no authority signed",
		Capabilities: power.Capabilities{SwitchesOff: true, SeesPower: true, Credentials: power.Optional},
		Parse:        parse,
	}
}

// control is where a service is, and the machine there.
type control struct {
	power.Address
	// system is the path of the machine on the service; "": the only one there.
	system string
	// certificate is the SHA-256 of the service's certificate (its DER); nil: the host's certificate authorities decide.
	certificate *[sha256.Size]byte
}

var systemForm = pattern.New(`^/redfish/v1/Systems/[A-Za-z0-9._:~-]+/?$`)

func parse(rest string) (power.Control, error) {
	address, u, err := power.ParseURL(scheme, rest, port)
	if err != nil {
		return nil, err
	}
	c := control{Address: address}
	if u.Path != "" && u.Path != "/" {
		if !systemForm.MatchString(u.EscapedPath()) || path.Base(u.Path) == ".." || path.Base(u.Path) == "." {
			return nil, fmt.Errorf("path %q; use that of a system, as /redfish/v1/Systems/1", u.EscapedPath())
		}
		c.system = strings.TrimSuffix(u.EscapedPath(), "/")
	}
	if c.certificate, err = parseCertificate(u); err != nil {
		return nil, err
	}
	return c, nil
}

func parseCertificate(u *url.URL) (*[sha256.Size]byte, error) {
	options, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("options: %w", err)
	}
	if len(options) == 0 && !u.ForceQuery {
		return nil, nil
	}
	given := options["certificate"]
	if len(options) != 1 || len(given) != 1 {
		return nil, errors.New("the one option is ?certificate=sha256:HEX")
	}
	digest, ok := strings.CutPrefix(given[0], "sha256:")
	raw, err := hex.DecodeString(digest)
	if !ok || err != nil || len(raw) != sha256.Size {
		return nil, fmt.Errorf("certificate: use sha256: and the 64 hex digits of the SHA-256 of the certificate's DER")
	}
	pin := [sha256.Size]byte(raw)
	return &pin, nil
}

func (c control) String() string { return scheme + "://" + c.Address.String() }
func (c control) To() string     { return c.Host }

func (c control) Open(o power.Opening) (power.Driver, error) {
	return driver{control: c, credentials: o.Credentials, namespace: o.Network.Namespace}, nil
}

// driver switches a machine. It sends Basic authentication with each request, so that it leaves no session behind: services have
// room for few.
type driver struct {
	control     control
	credentials power.Source
	namespace   string
}

func (r driver) State(ctx context.Context) (state power.State, err error) {
	err = r.session(ctx, func(s *service) error {
		state = s.system.state()
		return nil
	})
	return state, err
}

func (r driver) On(ctx context.Context) error {
	return r.session(ctx, func(s *service) error {
		if s.system.is(schemas.OnPowerState, schemas.PoweringOnPowerState) {
			return nil
		}
		return s.reset(schemas.OnResetType, schemas.ForceOnResetType)
	})
}

func (r driver) Off(ctx context.Context) error {
	return r.session(ctx, func(s *service) error {
		if s.system.is(schemas.OffPowerState) {
			return nil
		}
		return s.reset(schemas.ForceOffResetType)
	})
}

func (r driver) BootFromNetwork(ctx context.Context) error {
	return r.session(ctx, (*service).bootFromNetwork)
}

// session connects, finds the system and runs do. What comes back in errors is flat text without the password: much of
// it comes from the service.
func (r driver) session(ctx context.Context, do func(*service) error) error {
	var who power.Credentials
	if r.credentials.Given() {
		var err error
		if who, err = r.credentials.Read(); err != nil {
			return err
		}
	}
	web := r.http()
	defer web.CloseIdleConnections()
	config := gofish.ClientConfig{
		Endpoint: "https://" + r.control.Address.String(), HTTPClient: web,
		BasicAuth: true, ReuseConnections: true, NoModifyTransport: true,
	}
	if who.Given() {
		config.Username, config.Password = who.User, who.Password()
	}
	err := func() error {
		client, err := gofish.ConnectContext(ctx, config)
		if err != nil {
			return err
		}
		s := &service{APIClient: client, path: r.control.system}
		if err := s.find(); err != nil {
			return err
		}
		return do(s)
	}()
	return r.explain(err, who)
}

// http is a client that reaches this one service, from inside the namespace, whatever it is asked for.
func (r driver) http() *http.Client {
	return &http.Client{
		Transport: limited{&http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return r.control.Dial(ctx, r.namespace, "tcp")
			},
			TLSClientConfig: r.tls(),
			// Without it some services mark the ETag as one of a compressed answer.
			DisableCompression:     true,
			MaxResponseHeaderBytes: maxAnswer,
		}},
		CheckRedirect: func(next *http.Request, before []*http.Request) error {
			if next.URL.Scheme != "https" || next.URL.Host != r.control.Address.String() || next.Method != http.MethodGet ||
				len(before) > 3 {
				return errors.New("the service sends us elsewhere")
			}
			return nil
		},
	}
}

// tls trusts the pinned certificate and no other; without a pin, the host's authorities.
func (r driver) tls() *tls.Config {
	config := &tls.Config{ServerName: r.control.Host, MinVersion: tls.VersionTLS12}
	if r.control.certificate != nil {
		config.InsecureSkipVerify = true // VerifyConnection is stricter: BMCs sign their certificates themselves
		config.VerifyConnection = func(s tls.ConnectionState) error {
			if seen := sha256.Sum256(s.PeerCertificates[0].Raw); seen != *r.control.certificate {
				return fmt.Errorf("the service's certificate is sha256:%s, not the one that was pinned",
					hex.EncodeToString(seen[:]))
			}
			return nil
		}
	}
	return config
}

// explain says in our words why a service did not do as asked.
func (r driver) explain(err error, who power.Credentials) error {
	var answer *schemas.Error
	var untrusted *tls.CertificateVerificationError
	switch {
	case err == nil, errors.Is(err, power.ErrUnsupported):
		return err
	case errors.As(err, &untrusted) && len(untrusted.UnverifiedCertificates) > 0:
		seen := sha256.Sum256(untrusted.UnverifiedCertificates[0].Raw)
		return fmt.Errorf("%s; if its certificate is sha256:%s, pin it by adding ?certificate=sha256:HEX",
			who.Redact(untrusted.Err.Error()), hex.EncodeToString(seen[:]))
	case !errors.As(err, &answer):
		return errors.New(who.Redact(err.Error()))
	}
	text := answer.Message
	if len(answer.ExtendedInfos) > 0 {
		text = cmp.Or(answer.ExtendedInfos[0].Message, text)
	}
	text = who.Redact(text)
	switch status := answer.HTTPReturnedStatusCode; {
	case status == http.StatusUnauthorized && !who.Given():
		return fmt.Errorf("%w: the service asks for them and none are set", power.ErrCredentials)
	case status == http.StatusUnauthorized:
		return fmt.Errorf("%w: the service refuses user or password", power.ErrCredentials)
	case status == http.StatusForbidden:
		return fmt.Errorf("%w: the service does not let the user do that: %s", power.ErrCredentials, text)
	case status == 0:
		return errors.New(text)
	default:
		return fmt.Errorf("HTTP %d: %s", status, text)
	}
}

// limited cuts answers that are too long. A cut one is no JSON and fails.
type limited struct{ http.RoundTripper }

func (l limited) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := l.RoundTripper.RoundTrip(request)
	if err == nil {
		response.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(response.Body, maxAnswer), response.Body}
	}
	return response, err
}

// CloseIdleConnections is what http.Client looks for in its transport.
func (l limited) CloseIdleConnections() { l.RoundTripper.(*http.Transport).CloseIdleConnections() }

// service is a connection, with the system that it is about as it was when the connection began. The library's own type
// of a system is not used: it fails on any property that a BMC has the wrong type for, sends If-Match with actions, and
// in this version posts a reset to nowhere (stmcginnis/gofish#502).
type service struct {
	*gofish.APIClient
	path   string
	system system
	way    way
}

// system is what we read of a ComputerSystem.
type system struct {
	ETag         string `json:"@odata.etag"`
	PowerState   schemas.PowerState
	Manufacturer string
	Model        string
	Boot         *struct {
		Mode    string   `json:"BootSourceOverrideMode"`
		Targets []string `json:"BootSourceOverrideTarget@Redfish.AllowableValues"`
	}
	Actions struct {
		Reset struct {
			Target string              `json:"target"`
			Types  []schemas.ResetType `json:"ResetType@Redfish.AllowableValues"`
		} `json:"#ComputerSystem.Reset"`
	}
	Settings struct {
		Object link `json:"SettingsObject"`
	} `json:"@Redfish.Settings"`
}

type link struct {
	ID string `json:"@odata.id"`
}

func (s system) is(states ...schemas.PowerState) bool { return slices.Contains(states, s.PowerState) }

// state is On as long as there is any power.
func (s system) state() power.State {
	switch {
	case s.is(schemas.OffPowerState):
		return power.Off
	case s.is(schemas.OnPowerState, schemas.PoweringOnPowerState, schemas.PoweringOffPowerState, schemas.PausedPowerState):
		return power.On
	}
	return power.Unknown
}

// find reads the system, and finds it first if the control does not name it.
func (s *service) find() error {
	if s.path == "" {
		var systems struct{ Members []link }
		if _, err := s.read(systemsPath, &systems); err != nil {
			return err
		}
		if len(systems.Members) != 1 {
			names := lists.Map(systems.Members[:min(len(systems.Members), 8)], func(m link) string { return m.ID })
			return fmt.Errorf("the service has %d systems; name one of them in the control, as redfish://HOST/PATH: %s",
				len(systems.Members), strings.Join(names, " "))
		}
		s.path = systems.Members[0].ID
	}
	if _, err := s.read(s.path, &s.system); err != nil {
		return err
	}
	s.way = wayOf(s.Service.Vendor, s.Service.Product, s.system.Manufacturer, s.system.Model)
	return nil
}

// below is a path below the system's, which some services end with a slash.
func (s *service) below(path string) string { return strings.TrimSuffix(s.path, "/") + path }

// read fetches a resource and returns its ETag.
func (s *service) read(path string, into any) (etag string, err error) {
	if !strings.HasPrefix(path, "/") {
		return "", fmt.Errorf("the service names a resource %q, which is no path", path)
	}
	response, err := s.Get(path)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return response.Header.Get("ETag"), nil
}

// reset posts the first of these types that the system knows.
func (s *service) reset(types ...schemas.ResetType) error {
	action := s.system.Actions.Reset
	kind := types[0]
	if len(action.Types) > 0 {
		i := slices.IndexFunc(types, func(t schemas.ResetType) bool { return slices.Contains(action.Types, t) })
		if i < 0 {
			return fmt.Errorf("%w: the service knows no reset of the type %s", power.ErrUnsupported, kind)
		}
		kind = types[i]
	}
	target := cmp.Or(action.Target, s.below("/Actions/ComputerSystem.Reset"))
	if !strings.HasPrefix(target, "/") {
		return fmt.Errorf("the service names an action %q, which is no path", target)
	}
	response, err := s.Post(target, map[string]schemas.ResetType{"ResetType": kind})
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// bootFromNetwork asks for one boot by PXE. UEFI or BIOS stays as it is.
func (s *service) bootFromNetwork() error {
	pxe := schemas.PxeBootSource
	if boot := s.system.Boot; boot == nil || len(boot.Targets) > 0 && !slices.Contains(boot.Targets, string(pxe)) {
		return power.ErrUnsupported
	}
	boot := map[string]string{
		"BootSourceOverrideEnabled": string(schemas.OnceBootSourceOverrideEnabled),
		"BootSourceOverrideTarget":  string(pxe),
	}
	if s.way.mode && s.system.Boot.Mode != "" {
		boot["BootSourceOverrideMode"] = s.system.Boot.Mode
	}
	body := map[string]any{"Boot": boot}
	err := s.patch(s.path, body)
	settings := s.system.Settings.Object.ID
	if settings == "" && s.way.settingsPath != "" {
		settings = s.below(s.way.settingsPath)
	}
	if s.way.settings && settings != "" && status(err, http.StatusBadRequest, http.StatusMethodNotAllowed) {
		err = s.patch(settings, body)
	}
	if status(err, http.StatusMethodNotAllowed, http.StatusNotImplemented) {
		return power.ErrUnsupported
	}
	return err
}

// patch changes a resource. If-Match is sent to those that are known to want it, and to those that then ask for it.
func (s *service) patch(path string, body any) error {
	var headers map[string]string
	for attempt := 0; ; attempt++ {
		if s.way.ifMatch || attempt > 0 {
			etag, err := s.etag(path)
			if err != nil {
				return err
			}
			if etag != "" {
				headers = map[string]string{"If-Match": etag}
			}
		}
		response, err := s.PatchWithHeaders(path, body, headers)
		if err == nil {
			return response.Body.Close()
		}
		if attempt > 0 || !status(err, http.StatusPreconditionFailed, http.StatusPreconditionRequired) {
			return err
		}
	}
}

// etag reads a resource's present ETag. The one in the body knows nothing of compression.
func (s *service) etag(path string) (string, error) {
	var resource struct {
		ETag string `json:"@odata.etag"`
	}
	header, err := s.read(path, &resource)
	return s.way.etag(cmp.Or(resource.ETag, header)), err
}

// status says that a service answered with one of these.
func status(err error, codes ...int) bool {
	answer, answered := errors.AsType[*schemas.Error](err)
	return answered && slices.Contains(codes, answer.HTTPReturnedStatusCode)
}
