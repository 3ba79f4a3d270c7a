package ipmi

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/bougou/go-ipmi/pkg/command/app"
	"github.com/bougou/go-ipmi/pkg/crypto"
	"github.com/bougou/go-ipmi/pkg/rmcpplus"
	"github.com/bougou/go-ipmi/pkg/types"

	"muster/internal/drivers/power"
)

// rmcp is an RMCP+ session (IPMI 2.0, chapter 13). The IPMI library has one of its own, and it is not used: it believes
// answers without looking at their authentication code, so that anybody who can send a datagram in a BMC's name could
// tell us that a machine is off, and it falls over one with a wrong padding. Its messages, keys and commands are used.
//
// Datagrams that are not what is waited for are passed over, as if they had not come.
type rmcp struct {
	connection net.Conn
	auth       types.AuthAlg
	integrity  types.IntegrityAlg
	encryption types.CryptAlg
	ours, bmcs uint32 // session IDs: ours is in what the BMC sends
	tag        uint8  // of the last message of the set-up
	sequence   uint32 // of the last datagram in the session
	message    uint8  // sequence number of the last command, six bits
	k1, k2     []byte // for integrity and encryption
}

// Layout of a datagram (IPMI 2.0, table 13-8): the RMCP header, then authentication type, payload type, session ID,
// sequence number and length of the payload; in a session the payload is followed by a trailer.
const (
	rmcpHeader    = 4
	payloadStart  = rmcpHeader + 12
	authRMCPPlus  = 0x06
	nextHeader    = 0x07
	sessionFlags  = 0xc0 // of the payload type: encrypted and authenticated
	maxDatagram   = 1024
	addressBMC    = 0x20
	addressRemote = 0x81
	// role asks for an operator's rights, which suffice, and has the user looked up by name alone (table 13-11).
	role = uint8(types.PrivilegeLevelOperator) | 1<<4
)

// resend is the first pause before a message is sent again; it doubles. BMCs lose datagrams, above all while they are busy.
const resend = time.Second

// errSuite says that the BMC lacks the cipher suite that was asked for.
var errSuite = errors.New("no such cipher suite")

// openRMCP opens a session as a user. It is the BMC's, too, that proves to know the password.
func openRMCP(ctx context.Context, connection net.Conn, who power.Credentials, suite types.CipherSuiteID) (*rmcp, error) {
	s := &rmcp{connection: connection}
	s.auth, s.integrity, s.encryption, _ = types.GetCipherSuiteAlgorithms(suite)
	var random [4 + 1 + 16]byte
	rand.Read(random[:])
	s.ours, s.tag = binary.LittleEndian.Uint32(random[:4])|1, random[4]
	nonce := [16]byte(random[5:])
	if err := s.open(ctx); err != nil {
		return nil, err
	}

	key := crypto.PadPassword20([]byte(who.Password()))
	hello := rmcpplus.RAKPMessage1{
		ManagedSystemSessionID: s.bmcs, RemoteConsoleRandomNumber: nonce,
		NameOnlyLookup: true, RequestedMaximumPrivilegeLevel: types.PrivilegeLevelOperator,
		UsernameLength: uint8(len(who.User)), Username: []byte(who.User),
	}
	theirs := rmcpplus.RAKPMessage2{AuthAlg: s.auth}
	err := s.setUp(ctx, types.PayloadTypeRAKPMessage1, func(tag uint8) []byte {
		hello.MessageTag = tag
		return hello.Pack()
	}, theirs.Unpack)
	if err != nil {
		return nil, fmt.Errorf("RAKP 2: %w", err)
	}
	proof, err := crypto.RAKP2AuthCode(s.auth, s.ours, s.bmcs, nonce[:], theirs.ManagedSystemRandomNumber[:],
		theirs.ManagedSystemGUID[:], role, who.User, key)
	if err != nil {
		return nil, err
	}
	if !hmac.Equal(proof, theirs.KeyExchangeAuthenticationCode) {
		return nil, fmt.Errorf("%w: the BMC has another password for the user", power.ErrCredentials)
	}

	proof, err = crypto.RAKP3AuthCode(s.auth, theirs.ManagedSystemRandomNumber[:], s.ours, role, who.User, key)
	if err != nil {
		return nil, err
	}
	var sik []byte
	sik, s.k1, s.k2, err = crypto.DeriveSessionKeys(s.auth, nonce[:], theirs.ManagedSystemRandomNumber[:], role, who.User, key)
	if err != nil {
		return nil, err
	}
	finish := rmcpplus.RAKPMessage3{ManagedSystemSessionID: s.bmcs, KeyExchangeAuthenticationCode: proof}
	last := rmcpplus.RAKPMessage4{AuthAlg: s.auth}
	err = s.setUp(ctx, types.PayloadTypeRAKPMessage3, func(tag uint8) []byte {
		finish.MessageTag = tag
		return finish.Pack()
	}, last.Unpack)
	if err != nil {
		return nil, fmt.Errorf("RAKP 4: %w", err)
	}
	proof, err = crypto.RAKP4ICV(s.auth, nonce[:], s.bmcs, theirs.ManagedSystemGUID[:], sik)
	if err != nil {
		return nil, err
	}
	if !hmac.Equal(proof, last.IntegrityCheckValue) {
		return nil, fmt.Errorf("%w: the BMC does not prove to know the password", power.ErrCredentials)
	}
	err = s.do(ctx, &app.SetSessionPrivilegeLevelRequest{PrivilegeLevel: types.PrivilegeLevelOperator},
		&app.SetSessionPrivilegeLevelResponse{})
	if refused(err) {
		s.close()
		return nil, fmt.Errorf("%w: the BMC does not let the user be an operator: %w", power.ErrCredentials, err)
	}
	return s, err
}

// open agrees on algorithms and session IDs (sections 13.17 and 13.18).
func (s *rmcp) open(ctx context.Context) error {
	ask := rmcpplus.OpenSessionRequest{RemoteConsoleSessionID: s.ours}
	ask.AuthenticationPayload, ask.IntegrityPayload, ask.ConfidentialityPayload = rmcpplus.NewAlgorithmPayloads(s.auth,
		s.integrity, s.encryption)
	var opened rmcpplus.OpenSessionResponse
	err := s.setUp(ctx, types.PayloadTypeRmcpOpenSessionRequest, func(tag uint8) []byte {
		ask.MessageTag = tag
		return ask.Pack()
	}, opened.Unpack)
	var status *types.RmcpStatusError
	switch {
	case errors.As(err, &status) && unknownSuite(status.StatusCode()):
		return fmt.Errorf("open session: %w: %w", errSuite, err)
	case err != nil:
		return fmt.Errorf("open session: %w", err)
	case types.AuthAlg(opened.AuthAlg) != s.auth, types.IntegrityAlg(opened.IntegrityAlg) != s.integrity,
		types.CryptAlg(opened.CryptAlg) != s.encryption:
		return errors.New("open session: the BMC answers with other algorithms than it was asked for")
	}
	s.bmcs = opened.ManagedSystemSessionID
	return nil
}

// setUp exchanges one message of the set-up, outside of any session. Each sending has another tag, and only the answer to
// the last one counts: a BMC that is asked twice draws other random numbers.
func (s *rmcp) setUp(ctx context.Context, kind types.PayloadType, pack func(tag uint8) []byte, unpack func([]byte) error) error {
	return s.exchange(ctx, func() ([]byte, error) {
		s.tag++
		return frame(uint8(kind), 0, 0, pack(s.tag)), nil
	}, func(datagram []byte) (bool, error) {
		flags, session, payload, _, ok := unframe(datagram)
		if !ok || flags != uint8(kind)+1 || session != 0 || len(payload) < 2 || payload[0] != s.tag {
			return false, nil
		}
		// A refusal may end after the status; the session ID is our only other mark in an answer.
		if status := types.RmcpStatusCode(payload[1]); status != types.RmcpStatusCodeNoErrors {
			return true, types.NewRmcpStatusError(status)
		}
		if len(payload) < 8 || binary.LittleEndian.Uint32(payload[4:]) != s.ours {
			return false, nil
		}
		return true, unpack(payload)
	})
}

// do sends a command in the session and waits for its answer. A command that is sent again has another sequence number of
// the session, or the BMC would drop it as one that it has seen (section 6.12.13), and the same of the message.
func (s *rmcp) do(ctx context.Context, request types.Request, response types.Response) error {
	s.message = (s.message + 1) & 0x3f
	command := request.Command()
	return s.exchange(ctx, func() ([]byte, error) { return s.seal(request) }, func(datagram []byte) (bool, error) {
		payload, ok := s.unseal(datagram)
		if !ok {
			return false, nil
		}
		code, data, ok := parseAnswer(payload, command, s.message)
		switch {
		case !ok:
			return false, nil
		case code != types.CodeOK:
			return true, types.NewResponseError(code, types.StrCC(command, uint8(code)))
		}
		return true, response.Unpack(data)
	})
}

// close tells the BMC that the session is over. It does not wait for the answer: a BMC that does not hear it forgets the session
// by itself after a minute.
func (s *rmcp) close() {
	s.message = (s.message + 1) & 0x3f
	if datagram, err := s.seal(&app.CloseSessionRequest{SessionID: s.bmcs}); err == nil {
		s.connection.Write(datagram)
	}
}

// exchange sends what pack makes, again and again with growing pauses, until accept has taken an answer or the context
// ends.
func (s *rmcp) exchange(ctx context.Context, pack func() ([]byte, error), accept func([]byte) (bool, error)) error {
	stop := context.AfterFunc(ctx, func() { s.connection.SetDeadline(time.Now()) })
	defer stop()
	buffer := make([]byte, maxDatagram)
	for pause := resend; ; pause *= 2 {
		datagram, err := pack()
		if err != nil {
			return err
		}
		s.connection.SetDeadline(time.Now().Add(pause))
		if ctx.Err() != nil { // else the deadline of the context's end would be lost, if it came first
			return ctx.Err()
		}
		_, err = s.connection.Write(datagram)
		for err == nil {
			var n int
			if n, err = s.connection.Read(buffer); err == nil {
				if taken, err := accept(buffer[:n]); taken {
					return err
				}
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
	}
}

// seal makes the datagram of a command: an IPMI message (section 13.8), encrypted and authenticated.
func (s *rmcp) seal(request types.Request) ([]byte, error) {
	command := request.Command()
	message := types.IPMIRequest{
		ResponderAddr: addressBMC, NetFn: command.NetFn, RequesterAddr: addressRemote,
		RequesterSequence: s.message, Command: command.ID, CommandData: request.Pack(),
	}
	message.ComputeChecksum()
	payload, err := crypto.EncryptAESPayload(message.Pack(), s.k2, crypto.RandomBytes(16))
	if err != nil {
		return nil, err
	}
	s.sequence++
	datagram := frame(sessionFlags, s.bmcs, s.sequence, payload)
	padding := types.IntegrityPadLen(payloadStart-rmcpHeader, len(payload))
	datagram = append(datagram, bytes.Repeat([]byte{0xff}, padding)...)
	datagram = append(datagram, uint8(padding), nextHeader)
	code, err := crypto.SessionIntegrityAuthCode(s.integrity, datagram[rmcpHeader:], s.k1, "")
	return append(datagram, code...), err
}

// unseal returns the message of a datagram that the BMC sealed for this session.
func (s *rmcp) unseal(datagram []byte) ([]byte, bool) {
	flags, session, payload, trailer, ok := unframe(datagram)
	length, known := crypto.IntegrityAuthCodeLen(s.integrity)
	if !ok || !known || flags != sessionFlags || session != s.ours || len(trailer) < length+2 {
		return nil, false
	}
	signed := len(datagram) - length
	code, err := crypto.SessionIntegrityAuthCode(s.integrity, datagram[rmcpHeader:signed], s.k1, "")
	if err != nil || !hmac.Equal(code, datagram[signed:]) || len(payload)%16 != 0 {
		return nil, false
	}
	message, err := crypto.DecryptAESPayload(payload, s.k2)
	return message, err == nil
}

// frame puts headers before a payload.
func frame(flags uint8, session, sequence uint32, payload []byte) []byte {
	out := []byte{0x06, 0x00, 0xff, 0x07, authRMCPPlus, flags} // RMCP 1.0, no acknowledgement, class IPMI
	out = binary.LittleEndian.AppendUint32(out, session)
	out = binary.LittleEndian.AppendUint32(out, sequence)
	out = binary.LittleEndian.AppendUint16(out, uint16(len(payload)))
	return append(out, payload...)
}

// unframe takes a datagram apart.
func unframe(d []byte) (flags uint8, session uint32, payload, trailer []byte, ok bool) {
	if len(d) < payloadStart || d[0] != 0x06 || d[3] != 0x07 || d[4] != authRMCPPlus {
		return 0, 0, nil, nil, false
	}
	end := payloadStart + int(binary.LittleEndian.Uint16(d[14:]))
	if end > len(d) {
		return 0, 0, nil, nil, false
	}
	return d[5], binary.LittleEndian.Uint32(d[6:]), d[payloadStart:end], d[end:], true
}

// parseAnswer reads the answer to a command: completion code and data.
func parseAnswer(message []byte, command types.Command, sequence uint8) (types.CompletionCode, []byte, bool) {
	var answer types.IPMIResponse
	if answer.Unpack(message) != nil || answer.NetFn != command.NetFn+1 || answer.Command != command.ID ||
		answer.RequesterSequence != sequence {
		return 0, nil, false
	}
	return types.CompletionCode(answer.CompletionCode), answer.Data, true
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
