package ufm

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"muster/internal/fabric"
	"muster/internal/kit/wrap"
)

// Kinds of failure, by what may be done after them.
var (
	errTransient = errors.New("it may work later") // there was no answer, or the server failed: the same may be asked again
	errUnfit     = errors.New("UFM does not take it")
	errUnknown   = errors.New("UFM does not have it")
)

// client speaks to one UFM. Its errors hold no secret.
type client struct {
	base     string
	config   Config
	requests *http.Client
}

func newClient(c Config) (*client, error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.User != nil || u.Path != "" && u.Path != "/" || u.RawQuery != "" {
		return nil, errors.New("not a server's address; one looks like https://ufm.example.org, and names neither user nor path")
	}
	address := net.ParseIP(u.Hostname())
	here := u.Hostname() == "localhost" || address != nil && address.IsLoopback()
	if c.Elsewhere && (u.Scheme != "https" || here || address != nil && near(address)) {
		return nil, errors.New("UFM is to be at another host, by https; root names one on this host in the site file")
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !here) {
		return nil, errors.New("only https is spoken: a password would pass in the clear")
	}
	// Who has a password and who has a token come by different doors (UFM Enterprise REST API Guide, "Authentication").
	root := "/ufmRest"
	switch {
	case c.Token != nil && (c.User != "" || c.Password != nil):
		return nil, errors.New("a token and a user: give one of them")
	case c.Token != nil:
		root = "/ufmRestV3"
	case c.User == "" || c.Password == nil:
		return nil, errors.New("it needs a user and the name of a password, or that of a token")
	}
	made := &client{base: strings.TrimSuffix(c.URL, "/") + root, config: c}
	if _, err := made.credentials(); err != nil {
		return nil, err
	}
	roots := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CA != nil {
		text, err := c.CA()
		if err != nil {
			return nil, err
		}
		roots.RootCAs = x509.NewCertPool()
		if !roots.RootCAs.AppendCertsFromPEM([]byte(text)) {
			return nil, errors.New("the file of who signed its certificate has none in PEM")
		}
	}
	transport := &http.Transport{TLSClientConfig: roots, MaxIdleConnsPerHost: 1, IdleConnTimeout: c.Timeout}
	if c.Elsewhere { // a name may lead here too, and to another address each time
		dialer := &net.Dialer{Timeout: c.Timeout, Control: func(_, to string, _ syscall.RawConn) error {
			host, _, err := net.SplitHostPort(to)
			if ip := net.ParseIP(host); err != nil || ip == nil || near(ip) {
				return fmt.Errorf("%s is this host's own, or no other's", to)
			}
			return nil
		}}
		transport.DialContext = dialer.DialContext
	}
	made.requests = &http.Client{Transport: transport, Timeout: c.Timeout,
		// Where a redirect leads the credentials have no business.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return made, nil
}

// near says whether an address is this host's own or that of its links, where services answer any process of this host.
func near(ip net.IP) bool {
	return ip.IsLoopback() || ip.IsUnspecified() || ip.IsLinkLocalUnicast() || ip.IsMulticast()
}

// credentials reads what proves who asks.
func (c *client) credentials() (set func(*http.Request), err error) {
	read := c.config.Password
	if c.config.Token != nil {
		read = c.config.Token
	}
	text, err := read()
	if err != nil {
		return nil, err
	}
	secret := strings.TrimSpace(text)
	if secret == "" || strings.ContainsAny(secret, "\r\n") {
		return nil, errors.New("a password or a token is one line")
	}
	return func(r *http.Request) {
		if c.config.Token != nil {
			r.Header.Set("Authorization", "Basic "+secret) // the guide's word for tokens too
			return
		}
		r.SetBasicAuth(c.config.User, secret)
	}, nil
}

// call asks, and returns the answer's text if UFM says that all went well.
func (c *client) call(ctx context.Context, method, path string, body any) ([]byte, error) {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, content)
	if err != nil {
		return nil, err
	}
	set, err := c.credentials()
	if err != nil {
		return nil, err
	}
	set(request)
	request.Header.Set("Accept", "application/json")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	answer, err := c.requests.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if _, unknown := errors.AsType[*tls.CertificateVerificationError](err); unknown { // it will be the same one the next time
			return nil, err
		}
		return nil, fmt.Errorf("%w: %w", errTransient, err)
	}
	defer answer.Body.Close()
	const most = 64 << 20 // ten thousand ports in hundreds of partitions
	text, err := io.ReadAll(io.LimitReader(answer.Body, most+1))
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, fmt.Errorf("%w: its answer broke off: %w", errTransient, err)
	case len(text) > most:
		return nil, fmt.Errorf("its answer is longer than %d MiB", most>>20)
	}
	return text, judge(answer, text)
}

// judge says what an answer means.
func judge(answer *http.Response, text []byte) error {
	said := fmt.Sprintf("%s %s: %s: %s", answer.Request.Method, answer.Request.URL.Path, answer.Status, excerpt(text))
	code := answer.StatusCode
	switch {
	case code >= 300 && code < 400 || strings.HasPrefix(answer.Header.Get("Content-Type"), "text/html"):
		return fmt.Errorf("it answers with a page for people, as it does where nobody is logged in: see that the address is "+
			"UFM's and that the user may use its REST interface (%s)", said)
	case code < 300:
		return nil
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return fmt.Errorf("it does not let this user in, or not so far: see what is in the file with the secret, and the "+
			"user's role (%s)", said)
	case code == http.StatusNotFound:
		return fmt.Errorf("%w: %s", errUnknown, said)
	case code >= 500 || code == http.StatusRequestTimeout || code == http.StatusTooManyRequests:
		return fmt.Errorf("%w: %s", errTransient, said)
	case code == http.StatusBadRequest || code == http.StatusUnprocessableEntity:
		return fmt.Errorf("%w: %s", errUnfit, said)
	}
	return errors.New(said)
}

// excerpt is what of an answer goes into an error.
func excerpt(text []byte) string {
	const most = 200
	short := strings.Join(strings.FieldsFunc(string(text), func(r rune) bool { return r <= ' ' || r == 0x7f }), " ")
	if len(short) > most {
		short = strings.ToValidUTF8(short[:most], "") + "…"
	}
	return short
}

// partitions asks for all of them with their members.
func (c *client) partitions(ctx context.Context) (partitions, error) {
	text, err := c.call(ctx, http.MethodGet, "/resources/pkeys?guids_data=true", nil)
	if err != nil {
		return partitions{}, err
	}
	p, err := parsePartitions(text)
	return p, wrap.Errorf(err, "what it says of its partitions")
}

// ports asks for those that are up.
func (c *client) ports(ctx context.Context) ([]fabric.GUID, error) {
	text, err := c.call(ctx, http.MethodGet, "/resources/ports", nil)
	if err != nil {
		return nil, err
	}
	up, err := parsePorts(text)
	return up, wrap.Errorf(err, "what it says of its ports")
}

// add makes ports members; a partition that is not there is made. It may be repeated.
func (c *client) add(ctx context.Context, key fabric.Key, as fabric.Membership, ports []fabric.GUID) error {
	_, err := c.call(ctx, http.MethodPost, "/resources/pkeys/", struct {
		Key        string   `json:"pkey"`
		GUIDs      []string `json:"guids"`
		Membership string   `json:"membership"`
		Index0     bool     `json:"index0"`
		IPoIB      bool     `json:"ip_over_ib"`
	}{spellKey(key), spellGUIDs(ports), spellMembership(as), false, true})
	return err
}

// remove takes ports out; UFM drops a partition whose last member goes. It may be repeated: errUnknown then.
func (c *client) remove(ctx context.Context, key fabric.Key, ports []fabric.GUID) error {
	_, err := c.call(ctx, http.MethodDelete, "/resources/pkeys/"+spellKey(key)+"/guids/"+strings.Join(spellGUIDs(ports), ","),
		nil)
	return err
}
