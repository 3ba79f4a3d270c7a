package ipmi

import (
	"context"
	"fmt"
	"strings"

	"github.com/bougou/go-ipmi/pkg/command/app"
	"github.com/bougou/go-ipmi/pkg/types"

	"muster/internal/drivers/power"
)

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
				accounts = append(accounts, fmt.Sprintf("channel %d: %v, up to %s", channel, access.AccessMode,
					strings.ToLower(access.MaxPrivilegeLevel.String())))
			case !refused(err):
				return err
			}
		}
		return nil
	})
	if code, ok := completion(err); ok {
		return nil, fmt.Errorf("%w: the BMC answers %#02x", power.ErrUnsupported, uint8(code))
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
			break // the next request meets it, too
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
	for id, most := uint8(1), uint8(1); id <= most && id < power.MaxAccounts; id++ {
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
