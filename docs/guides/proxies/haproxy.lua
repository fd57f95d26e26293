-- headgate sends a description of the request to Headgate and stores the response in
-- variables of the transaction. limit_decision is allow, deny or error, or undecided if
-- Headgate did not respond.

-- Fields of the client's header that are sent: add the fields that policies use in keys.
local forwarded = {"x-api-key"}

-- The variables, by the response field that they contain.
local variables = {
  ["x-ratelimit-decision"] = "txn.limit_decision",
  ["ratelimit-policy"] = "txn.limit_policy",
  ["ratelimit"] = "txn.limit_left",
  ["retry-after"] = "txn.limit_wait",
  ["x-ratelimit-hold"] = "txn.limit_hold",
}

-- HAProxy's own statuses if Headgate is unavailable or too slow.
local unavailable = {[502] = true, [503] = true, [504] = true}

core.register_action("headgate", {"http-req"}, function(txn)
  txn:set_var("txn.limit_decision", "error")
  local header = {
    ["x-forwarded-method"] = {txn.sf:method()},
    ["x-forwarded-proto"] = {txn.sf:ssl_fc() == "1" and "https" or "http"},
    ["x-forwarded-host"] = {txn.sf:req_hdr("host")},
    ["x-forwarded-uri"] = {txn.sf:pathq()},
    ["x-forwarded-for"] = {txn.sf:src()},
  }
  for _, name in ipairs(forwarded) do
    -- The application may read another value of a repeated field than Headgate would get.
    if txn.f:req_fhdr_cnt(name) > 1 then return end
    local value = txn.sf:req_fhdr(name)
    if value ~= "" then header[name] = {value} end
  end
  txn:set_var("txn.limit_decision", "undecided")
  local response = core.httpclient():get{
    url = "http://127.0.0.1/v1/forward-auth", dst = "abns@headgate", headers = header, timeout = 10000,
  }
  -- A response without a decision means that Headgate rejected the request, for example
  -- because its header is too long. Never treat it as allowed.
  if response.status and not unavailable[response.status] then txn:set_var("txn.limit_decision", "error") end
  for name, variable in pairs(variables) do
    local values = response.headers and response.headers[name]
    if values then txn:set_var(variable, values[0]) end
  end
end)

-- headgate_commit is a filter that ends the hold of a request at the end of its response,
-- also if the client disconnects. The cost is in txn.limit_cost; without it, it is 1, as
-- charged. It is at most 10^9, because some algorithms reject a larger cost, and the hold
-- would then stay open. If Headgate does not respond, the hold expires.
local Commit = {id = "commits holds", flags = filter.FLT_CFG_FL_HTX}
Commit.__index = Commit

function Commit:new() return setmetatable({}, Commit) end

function Commit:start_analyze() return filter.CONTINUE end -- without it, there is no end_analyze

function Commit:end_analyze(txn, channel)
  local hold = channel:is_resp() and txn:get_var("txn.limit_hold")
  if not hold then return filter.CONTINUE end
  local cost = tonumber(txn:get_var("txn.limit_cost")) or 1
  cost = math.ceil(math.min(math.max(cost, 0), 1000000000))
  core.register_task(function() -- a filter cannot wait
    core.httpclient():post{
      url = "http://127.0.0.1/v1/commit", dst = "abns@headgate", timeout = 10000,
      body = string.format('{"hold":"%s","actual":%d}', hold, cost),
    }
  end)
  return filter.CONTINUE
end

core.register_filter("headgate_commit", Commit, function(commit) return commit end)
