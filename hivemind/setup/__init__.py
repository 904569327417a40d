"""How to point each client at the proxy, as data: `hivemind setup`, the tool hm.setup and the control room show it."""
