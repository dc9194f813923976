def handle(request):
    return request.get_data()
