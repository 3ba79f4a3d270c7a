package identity

import (
	"time"

	"golang.org/x/crypto/ssh"
)

// Centres trust an authority of their own. What the others sign must open none: users hold certificates of the user CA
// themselves, for their own names, and a centre cannot ask who may come.

// CentreCA is the public key that the sshd of a registered centre trusts to sign users, authorized_keys format without a
// newline.
func (a *Authority) CentreCA() string { return a.now().lines(SSHCentres) }

// CertifyGuest signs a key for an account at a centre, for life. The person is the key ID, which the centre's sshd writes
// to its log: so those who share an account can be told apart there.
func (a *Authority) CertifyGuest(publicKey, person, account string, now time.Time, life time.Duration) (string, error) {
	return certifySSH(a.now().signing(SSHCentres).signer, publicKey, ssh.UserCert, person, []string{account}, userRights(), now,
		life)
}

// CertifyProbe is CertifyGuest for the account that asks for queues: it runs commands, and gets no terminal and no forwarding.
func (a *Authority) CertifyProbe(publicKey, account string, now time.Time, life time.Duration) (string, error) {
	return certifySSH(a.now().signing(SSHCentres).signer, publicKey, ssh.UserCert, "muster's look at the queues",
		[]string{account}, nil, now, life)
}
