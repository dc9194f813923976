exports.handle = (request, response) => response.send(request.rawBody);
