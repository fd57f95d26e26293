package storeopen

import (
	"fmt"
	"time"

	"github.com/headgate/headgate/memstore"
)

// checkMemory diagnoses a memory store: it reads the state in its folder, and changes
// nothing.
func checkMemory(rawURL string) ([]Finding, error) {
	folder, _, err := memoryOptions(rawURL)
	if err != nil {
		return nil, err
	}
	if folder == "" {
		return []Finding{{Check: "memory", Level: Fine, Says: "in this process: always available, lost on restart"}}, nil
	}
	found := []Finding{{Check: "memory", Level: Fine, Says: "in the process of the service, with its state saved in a folder"}}
	check, err := memstore.CheckFolder(folder)
	if err != nil {
		return append(found, Finding{Check: "state", Level: Failing, Says: reason(err, "memstore: ")}), nil
	}
	if check.User != "" {
		found = append(found, Finding{Check: "folder", Level: Fine, Says: "in use by " + check.User})
	} else {
		found = append(found, Finding{Check: "folder", Level: Fine, Says: "not in use"})
	}
	return append(found, stateFindings(&check)...), nil
}

// stateFindings returns what was found in the state file.
func stateFindings(check *memstore.FolderCheck) []Finding {
	if check.File == "" {
		return []Finding{{Check: "state", Level: Fine, Says: "the folder has no state: every key is unused at the first start"}}
	}
	found := []Finding{
		{Check: "state", Level: Fine, Says: fmt.Sprintf("valid: %d keys in %s, %d groups of changes", check.Keys, bytesText(check.Bytes), check.Groups)},
		{Check: "last sync", Level: Fine, Says: check.LastSync.UTC().Format(time.RFC3339)},
	}
	if back := time.Until(check.LastSync); back > time.Second {
		found = append(found, Finding{
			Check: "clock", Level: Warning, Says: fmt.Sprintf("the local clock is %v behind the last sync: keys in use are denied for longer", back.Round(time.Second)),
			Advice: "set the clock right before the next start",
		})
	}
	switch {
	case check.User != "" || check.Clean:
	case check.CutBytes > 0:
		found = append(found, Finding{
			Check: "stop", Level: Warning, Says: fmt.Sprintf("the last run did not end regularly: the next start cuts off %d bytes of an incomplete group", check.CutBytes),
			Advice: "no action is necessary: at most one sync interval of decisions is forgotten",
		})
	default:
		found = append(found, Finding{
			Check: "stop", Level: Warning, Says: "the last run did not end regularly: at most one sync interval of decisions is forgotten",
		})
	}
	return found
}

func bytesText(n int64) string {
	if n < 1e6 {
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}
