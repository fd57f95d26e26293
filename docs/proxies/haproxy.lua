-- headgate describes the request to Headgate and leaves what it answers in the transaction's variables: limit_decision is allow,
-- deny or error, or not there if Headgate did not answer.

-- What of the client's own header is sent: add the fields that policies make keys of.
local passed = {"x-api-key"}

-- The variables, by the fields of the answer that they hold.
local kept = {
  ["x-ratelimit-decision"] = "txn.limit_decision",
  ["ratelimit-policy"] = "txn.limit_policy",
  ["ratelimit"] = "txn.limit_left",
  ["retry-after"] = "txn.limit_wait",
}

-- What HAProxy itself answers while Headgate is not there, or late.
local away = {[502] = true, [503] = true, [504] = true}

core.register_action("headgate", {"http-req"}, function(txn)
  local header = {
    ["x-forwarded-method"] = {txn.sf:method()},
    ["x-forwarded-proto"] = {txn.sf:ssl_fc() == "1" and "https" or "http"},
    ["x-forwarded-host"] = {txn.sf:req_hdr("host")},
    ["x-forwarded-uri"] = {txn.sf:pathq()},
    ["x-forwarded-for"] = {txn.sf:src()},
  }
  for _, name in ipairs(passed) do
    local value = txn.sf:req_fhdr(name)
    if value ~= "" then header[name] = {value} end
  end
  local answer = core.httpclient():get{
    url = "http://127.0.0.1/v1/forward-auth", dst = "abns@headgate", headers = header, timeout = 10000,
  }
  -- An answer without a decision is to a request that Headgate does not read, one with too long a header, and never a yes.
  if answer.status and not away[answer.status] then txn:set_var("txn.limit_decision", "error") end
  for name, variable in pairs(kept) do
    local values = answer.headers and answer.headers[name]
    if values then txn:set_var(variable, values[0]) end
  end
end)
