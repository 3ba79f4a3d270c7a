package power

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/bougou/go-ipmi/pkg/command/app"
	"github.com/bougou/go-ipmi/pkg/types"
)

// Accountant is what drivers are that can say who may log in at the machine's BMC. Whoever is root on a machine may add
// users to its BMC, from inside (KCS), and nothing but this tells.
type Accountant interface {
	// Accounts lists users, each with what it may do, and how the network reaches them: sorted lines, always the same as long
	// as nobody changes anything. ErrUnsupported: the control knows no users, or does not show them. It changes nothing.
	Accounts(ctx context.Context) ([]string, error)
}

// maxAccounts bounds what is read of one BMC. IPMI has 63 users at most.
const maxAccounts = 64

func (b bounded) Accounts(ctx context.Context) (accounts []string, err error) {
	a, ok := b.driver.(Accountant)
	if !ok {
		return nil, ErrUnsupported
	}
	err = b.run(ctx, "list the BMC's users", func(ctx context.Context) error {
		accounts, err = a.Accounts(ctx)
		return err
	})
	slices.Sort(accounts)
	return accounts, err
}

// Accounts of IPMI are those with a name or with access, on each of the LAN channels (IPMI 2.0, sections 22.23 to 22.29).
func (b bmc) Accounts(ctx context.Context) (accounts []string, err error) {
	err = b.session(ctx, func(s *rmcp) error {
		names := map[uint8]string{}
		for _, channel := range lanChannels(ctx, s) {
			lines, err := usersOf(ctx, s, channel, names)
			if err != nil {
				return err
			}
			accounts = append(accounts, lines...)
			var access app.GetChannelAccessResponse
			ask := app.GetChannelAccessRequest{ChannelNumber: channel, AccessOption: types.ChannelAccessOption_Volatile}
			switch err := s.do(ctx, &ask, &access); {
			case err == nil:
				accounts = append(accounts, fmt.Sprintf("channel %d: %v, up to %s", channel, access.AccessMode, strings.ToLower(access.MaxPrivilegeLevel.String())))
			case !refused(err):
				return err
			}
		}
		return nil
	})
	if code, ok := completion(err); ok {
		return nil, fmt.Errorf("%w: the BMC answers %#02x", ErrUnsupported, uint8(code))
	}
	return accounts, err
}

// presentChannel is the channel that is asked by.
const presentChannel = 0x0e

func lanChannels(ctx context.Context, s *rmcp) []uint8 {
	var channels []uint8
	for channel := uint8(1); channel <= 11; channel++ {
		var info app.GetChannelInfoResponse
		err := s.do(ctx, &app.GetChannelInfoRequest{ChannelNumber: channel}, &info)
		if err == nil && (info.ChannelMedium == types.ChannelMediumLAN || info.ChannelMedium == types.ChannelMediumOtherLAN) {
			channels = append(channels, channel)
		}
		if err != nil && !refused(err) {
			break // whoever asks next has the error
		}
	}
	if len(channels) == 0 {
		return []uint8{presentChannel}
	}
	return channels
}

// usersOf lists a channel's users. Names are the same on all channels.
func usersOf(ctx context.Context, s *rmcp, channel uint8, names map[uint8]string) ([]string, error) {
	var lines []string
	for id, most := uint8(1), uint8(1); id <= most && id < maxAccounts; id++ {
		var access app.GetUserAccessResponse
		err := s.do(ctx, &app.GetUserAccessRequest{ChannelNumber: channel, UserID: id}, &access)
		if id == 1 && err != nil {
			return nil, err
		}
		if id == 1 {
			most = access.MaxUsersIDCount & 0x3f
		}
		if err != nil && !refused(err) {
			return nil, err
		}
		if err != nil {
			continue // no such user
		}
		name, known := names[id]
		if !known {
			var answer app.GetUsernameResponse
			if err := s.do(ctx, &app.GetUsernameRequest{UserID: id}, &answer); err != nil && !refused(err) {
				return nil, err
			}
			name = answer.Username
			names[id] = name
		}
		const disabled = 2 // EnableStatus
		may := strings.ToLower(access.MaxPrivLevel.String())
		switch {
		case access.EnableStatus == disabled:
			may = "disabled"
		case !access.IPMIMessagingEnabled && !access.LinkAuthEnabled:
			may = "no access"
		}
		if name == "" && (may == "disabled" || may == "no access") {
			continue // a place for a user
		}
		lines = append(lines, fmt.Sprintf("channel %d: user %d %q: %s", channel, id, name, may))
	}
	return lines, nil
}

// Accounts of Redfish are those of its AccountService, with the directories that it asks besides.
func (r redfish) Accounts(ctx context.Context) (accounts []string, err error) {
	err = r.session(ctx, func(s *service) error {
		accounts, err = s.accounts()
		return err
	})
	return accounts, err
}

// directory is a source of users elsewhere.
type directory struct {
	Enabled   bool     `json:"ServiceEnabled"`
	Addresses []string `json:"ServiceAddresses"`
}

func (s *service) accounts() ([]string, error) {
	var service struct {
		Accounts        link
		LDAP            directory
		ActiveDirectory directory
	}
	_, err := s.read("/redfish/v1/AccountService", &service)
	if status(err, http.StatusNotFound, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotImplemented) || err == nil && service.Accounts.ID == "" {
		return nil, fmt.Errorf("%w: the service shows no accounts to this user", ErrUnsupported)
	}
	if err != nil {
		return nil, err
	}
	var lines []string
	for name, d := range map[string]directory{"LDAP": service.LDAP, "ActiveDirectory": service.ActiveDirectory} {
		if d.Enabled {
			lines = append(lines, fmt.Sprintf("%s is asked: %q", name, d.Addresses))
		}
	}
	page := service.Accounts.ID
	for n := 0; page != "" && n < maxAccounts; n++ {
		var list struct {
			Members []link
			Next    string `json:"Members@odata.nextLink"`
		}
		if _, err := s.read(page, &list); err != nil {
			return nil, err
		}
		for _, member := range list.Members {
			var account struct {
				UserName, RoleID string
				Enabled          *bool
			}
			if _, err := s.read(member.ID, &account); err != nil {
				return nil, err
			}
			if account.UserName == "" {
				continue // a place for a user
			}
			may := account.RoleID
			if account.Enabled != nil && !*account.Enabled {
				may = "disabled"
			}
			lines = append(lines, fmt.Sprintf("user %q: %s", account.UserName, may))
			if len(lines) > maxAccounts {
				return nil, errors.New("the service has more accounts than can be compared")
			}
		}
		page = list.Next
	}
	return lines, nil
}
