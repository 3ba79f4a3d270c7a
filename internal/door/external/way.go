// Package external handles clusters that Muster did not build: who may go there and as whom, how one gets there, and what
// their batch systems show.
//
// What enters: rows that operators wrote, jobs that their people want to run there, and the output of the external clusters'
// batch systems, which is not trusted. What leaves: targets for the gateway, jobs, and what was seen of queues.
package external

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"muster/internal/door/gateway/target"
	"muster/internal/identity"
	externals "muster/internal/kinds/external"
	"muster/internal/kit/pattern"
)

// certificateLife is how long what opens a login host is good. It has to last for one handshake.
const certificateLife = 5 * time.Minute

// Way is how a person gets to an external cluster, as the account.
func Way(a *identity.Authority, c externals.Cluster, person, account string) (target.Target, error) {
	t, err := login(c)
	t.Account = account
	t.Certify = func(key ssh.PublicKey) (string, error) {
		return a.CertifyGuest(string(ssh.MarshalAuthorizedKey(key)), person, account, time.Now(), certificateLife)
	}
	return t, err
}

// probe is the external cluster as it is looked at.
func probe(c externals.Cluster, a *identity.Authority) (target.Target, error) {
	t, err := login(c)
	t.Account = c.Probe
	t.Certify = func(key ssh.PublicKey) (string, error) {
		return a.CertifyProbe(string(ssh.MarshalAuthorizedKey(key)), c.Probe, time.Now(), certificateLife)
	}
	return t, err
}

// login is the way to an external cluster's login host, without an account.
func login(c externals.Cluster) (target.Target, error) {
	known, algorithms, err := hostKeys(c)
	return target.Target{
		Name: c.Name, Host: c.Login, Known: known, Algorithms: algorithms,
		Dial: func(ctx context.Context) (net.Conn, error) {
			d := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true}}
			return d.DialContext(ctx, "tcp", c.Login)
		},
	}, err
}

// errStranger says that another host answers than the one registered.
var errStranger = errors.New("the host that answers is not the one registered")

// hostKeys says how the login host proves who it is.
func hostKeys(c externals.Cluster) (ssh.HostKeyCallback, []string, error) {
	if c.HostCA != "" {
		ca, err := parseKey(c.HostCA)
		checker := ssh.CertChecker{IsHostAuthority: func(key ssh.PublicKey, _ string) bool { return same(key, ca) }}
		return func(host string, remote net.Addr, key ssh.PublicKey) error {
			if err := checker.CheckHostKey(host, remote, key); err != nil {
				return fmt.Errorf("%w: %w", errStranger, err)
			}
			return nil
		}, certificates(), err
	}
	var keys []ssh.PublicKey
	var algorithms []string
	for _, text := range c.HostKeys {
		key, err := parseKey(text)
		if err != nil {
			return nil, nil, err
		}
		keys = append(keys, key)
		if key.Type() == ssh.KeyAlgoRSA { // the key's name is that of a signature that is no longer trusted
			algorithms = append(algorithms, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
		} else {
			algorithms = append(algorithms, key.Type())
		}
	}
	return func(_ string, _ net.Addr, key ssh.PublicKey) error {
		if !slices.ContainsFunc(keys, func(one ssh.PublicKey) bool { return same(one, key) }) {
			return fmt.Errorf("%w: its key is %s", errStranger, ssh.FingerprintSHA256(key))
		}
		return nil
	}, algorithms, nil
}

// certificates are the kinds of host certificate that are taken.
func certificates() []string {
	return []string{ssh.CertAlgoED25519v01, ssh.CertAlgoECDSA256v01, ssh.CertAlgoECDSA384v01, ssh.CertAlgoECDSA521v01,
		ssh.CertAlgoRSASHA512v01, ssh.CertAlgoRSASHA256v01}
}

func same(a, b ssh.PublicKey) bool { return bytes.Equal(a.Marshal(), b.Marshal()) }

// parseKey reads a public key, with or without the host's name before it, as ssh-keyscan writes it.
func parseKey(text string) (ssh.PublicKey, error) {
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("%.60q is no SSH public key", text)
	}
	if _, ok := key.(*ssh.Certificate); ok {
		return nil, fmt.Errorf("%.60q is a certificate: give the key", text)
	}
	if algorithm := key.Type(); algorithm == "ssh-dss" {
		return nil, fmt.Errorf("keys of type %s are no longer safe: give another key of the host", algorithm)
	}
	return key, nil
}

// account is what useradd(8) and directories of external clusters allow.
var (
	accountName = pattern.New(`^[A-Za-z_][A-Za-z0-9._-]{0,31}$`)
	hostName    = pattern.New(`^[A-Za-z0-9]([A-Za-z0-9.:-]{0,253}[A-Za-z0-9])?$`)
	queueName   = pattern.New(`^[!-~]{1,128}$`)
)

// Check puts what an operator says of an external cluster into the form in which it is stored, or says what is wrong with it.
func Check(c externals.Cluster) (externals.Cluster, error) {
	host, port, err := net.SplitHostPort(c.Login)
	if err != nil {
		host, port = strings.Trim(c.Login, "[]"), "22"
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || !hostName.MatchString(host) {
		return c, fmt.Errorf("login: %.80q is not HOST or HOST:PORT", c.Login)
	}
	c.Login = net.JoinHostPort(host, port)
	c.HostKeys = slices.DeleteFunc(slices.Clone(c.HostKeys), func(text string) bool { return text == "" })
	if (c.HostCA == "") == (len(c.HostKeys) == 0) {
		return c, errors.New("either the CA of its host keys is needed, or the keys themselves: the host that answers must " +
			"prove who it is")
	}
	for i, text := range append(slices.Clone(c.HostKeys), c.HostCA) {
		if text == "" {
			continue
		}
		key, err := parseKey(text)
		if err != nil {
			return c, fmt.Errorf("host key: %w", err)
		}
		line := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
		if i < len(c.HostKeys) {
			c.HostKeys[i] = line
		} else {
			c.HostCA = line
		}
	}
	if err := checkAccount("probe", c.Probe); err != nil {
		return c, err
	}
	for _, p := range c.Projects {
		if p.Rule == externals.SharedAccount {
			if err := checkAccount("project "+p.Project, p.Account); err != nil {
				return c, err
			}
		}
		for _, q := range p.Queues {
			if !queueName.MatchString(q) {
				return c, fmt.Errorf("project %s: %.80q is no name of a queue", p.Project, q)
			}
		}
	}
	for person, account := range c.Accounts {
		if err := checkAccount("accounts: "+person, account); err != nil {
			return c, err
		}
	}
	return c, nil
}

func checkAccount(where, name string) error {
	if !accountName.MatchString(name) {
		return fmt.Errorf("%s: %.80q is no name of an account", where, name)
	}
	if name == "root" {
		return fmt.Errorf("%s: nobody may log in to an external cluster as root", where)
	}
	return nil
}
