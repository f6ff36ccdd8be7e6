from django.apps import AppConfig


class DelaydConfig(AppConfig):
    name = "delayd.django"
    label = "delayd"
    verbose_name = "delayd"
