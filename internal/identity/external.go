package identity

import (
	"time"

	"golang.org/x/crypto/ssh"
)

// External clusters trust an authority of their own. What the others sign must open none: users hold certificates of the user CA
// themselves, for their own names, and an external cluster cannot ask who may come.

// ExternalCA is the public key that the sshd of an external cluster trusts to sign users, authorized_keys format without a
// newline.
func (a *Authority) ExternalCA() string { return a.now().lines(SSHExternal) }

// CertifyGuest signs a key for an account at an external cluster, for life. The person is the key ID, which the external
// cluster's sshd writes to its log: so those who share an account can be told apart there.
func (a *Authority) CertifyGuest(publicKey, person, account string, now time.Time, life time.Duration) (string, error) {
	return certifySSH(a.now().signing(SSHExternal).signer, publicKey, ssh.UserCert, person, []string{account}, userRights(), now,
		life)
}

// CertifyProbe is CertifyGuest for the account that asks for queues: it runs commands, and gets no terminal and no forwarding.
func (a *Authority) CertifyProbe(publicKey, account string, now time.Time, life time.Duration) (string, error) {
	return certifySSH(a.now().signing(SSHExternal).signer, publicKey, ssh.UserCert, "muster's look at the queues",
		[]string{account}, nil, now, life)
}
