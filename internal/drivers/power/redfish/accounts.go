package redfish

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"muster/internal/drivers/power"
)

// Accounts of Redfish are those of its AccountService, with the directories that it asks besides.
func (r driver) Accounts(ctx context.Context) (accounts []string, err error) {
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
	if status(err, http.StatusNotFound, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotImplemented) ||
		err == nil && service.Accounts.ID == "" {
		return nil, fmt.Errorf("%w: the service shows no accounts to this user", power.ErrUnsupported)
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
	for n := 0; page != "" && n < power.MaxAccounts; n++ {
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
			if len(lines) > power.MaxAccounts {
				return nil, errors.New("the service has more accounts than can be compared")
			}
		}
		page = list.Next
	}
	return lines, nil
}
