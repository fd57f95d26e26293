core.register_action("headgate", {"http-req"}, function(txn)
  local c = core.httpclient()
  local res = c:get({
    url = "http://127.0.0.1:8080/v1/forward-auth",
    timeout = 100,
    headers = {
      ["x-forwarded-method"] = {txn.f:method()},
      ["x-forwarded-host"] = {txn.f:req_fhdr("host") or ""},
      ["x-forwarded-uri"] = {txn.f:pathq()},
      ["x-forwarded-for"] = {txn.f:src()},
    }
  })
  core.Info("status " .. tostring(res.status))
  if res.status == 200 then txn:set_var("txn.limit_decision", "allow") end
  if res.status == 429 then txn:set_var("txn.limit_decision", "deny") end
end, 0)
