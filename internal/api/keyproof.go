package api

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	apiv1 "muster/api/v1"
)

// proven says why a signature does not show that a person has a key's private half: it is an SSH signature (PROTOCOL.sshsig of
// OpenSSH) of the person's name in the namespace apiv1.KeyProofNamespace. With the public half alone one could register a key of
// somebody else's, whose logins would then be one's own.
func proven(key ssh.PublicKey, person, proof string) *apiv1.Problem {
	err := errors.New("there is none")
	if proof != "" {
		var signature *sshsig.Signature
		if signature, err = sshsig.Unarmor([]byte(proof)); err == nil {
			err = sshsig.Verify(strings.NewReader(person), signature, key, signature.HashAlgorithm, apiv1.KeyProofNamespace)
		}
	}
	if err == nil {
		return nil
	}
	return invalid(fmt.Sprintf("proof: it does not show that you have the private key: %s", err),
		fmt.Sprintf("`muster keys add` makes one; without it: printf %%s %s | ssh-keygen -Y sign -n %s -f KEY", person,
			apiv1.KeyProofNamespace))
}
